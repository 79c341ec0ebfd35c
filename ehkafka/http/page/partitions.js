// The partitions as a table, by the column that was chosen.
import { askToAct, word } from "./act.js";
import { applyAccess, refuse } from "./access.js";
import { Kept, at, button, element, row, write } from "./dom.js";
import { NONE, counted, number, partitionName, rate, span, visible } from "./words.js";

const COLUMNS = [
  { name: "Partition", value: (one) => one.name, text: (one) => visible(one.name, 300), isText: true },
  { name: "Handled/s", value: (one) => one.rate ?? -1, text: (one) => rate(one.rate) },
  { name: "Lag", value: (one) => one.lag_records ?? -1, text: (one) => number(one.lag_records) },
  { name: "Backlog", value: (one) => one.backlog_records, text: (one) => number(one.backlog_records) },
  { name: "Parked", value: (one) => one.parked_records, text: (one) => number(one.parked_records) },
  { name: "Oldest unfinished", value: (one) => one.oldest?.age_s ?? -1, text: (one) => (one.oldest ? span(one.oldest.age_s) : NONE) },
  { name: "Committed", value: (one) => one.committed ?? -1, text: (one) => number(one.committed) },
  { name: "State", value: (one) => one.word, text: (one) => one.word, isText: true },
];
let sortedBy = COLUMNS[0];
let isDescending = false;
let repeat = () => {};

const rows = new Kept(at("partition-rows"), makeRow);

export function showPartitions(state, rates) {
  repeat = () => showPartitions(state, rates);
  const stopped = new Set((state.snapshot.handlers ?? []).filter((one) => one.is_stopped).flatMap((one) => one.topics));
  const all = state.snapshot.partitions.map((one) => {
    const name = partitionName(one.partition);
    const isStopped = stopped.has(one.partition.topic);
    return { ...one, name, isStopped, rate: rates.partition(name), word: wordOf(one, isStopped) };
  });
  write(at("partitions-note"), all.length ? counted(all.length, "partition") : "none is ours");
  rows.show(sorted(all), (one) => one.name);
  applyAccess(at("partition-rows"));
}

function wordOf(one, isStopped) {
  if (isStopped) return "handler stopped";
  if (one.is_paused_by_hand) return "paused by hand";
  if (one.unreadable) return `cannot be read from ${one.unreadable.offset}`;
  if (one.oldest?.is_stuck && one.oldest.status === "running") return "held up by a running call";
  if (one.paused) return "paused, is full";
  if (isHeldUp(one)) return "its commit is held up";
  if (isSilent(one)) return `no answer for ${span(one.log_age_s)}`;
  return one.standstill_s > 0 ? `stands still for ${span(one.standstill_s)}` : "receives";
}

// A leader that answers tells more often than that where the log ends.
const isSilent = ({ log_age_s }) => log_age_s > 8;
const isHeldUp = ({ oldest }) => Boolean(oldest) && (oldest.is_stuck || !["running", "queued"].includes(oldest.status));

// Names of a topic by the partition's number, all else by the number, then by name.
const naturally = new Intl.Collator("en", { numeric: true });

function sorted(all) {
  const sign = isDescending ? -1 : 1;
  const { value, isText } = sortedBy;
  const compare = isText ? (a, b) => naturally.compare(value(a), value(b)) : (a, b) => value(a) - value(b);
  return all.sort((a, b) => sign * compare(a, b) || naturally.compare(a.name, b.name));
}

function makeRow(one) {
  const { node, cells } = row([...COLUMNS.map((column) => (column.isText ? "" : "right")), "buttons"]);
  node.dataset.name = one.name;
  const make = (action) => button("act", word(action), `${word(action)} partition ${visible(one.name, 300)}`, (from) => askToAct(from, { action, target: "partition", name: one.name, subject: one.name }));
  const [pause, resume] = [make("pause"), make("resume")];
  cells.at(-1).append(pause, resume);
  return {
    node,
    fill(now) {
      COLUMNS.forEach((column, n) => write(cells[n], column.text(now)));
      const isStill = now.standstill_s > 0 || isSilent(now);
      node.classList.toggle("attention", now.is_paused_by_hand || isHeldUp(now) || Boolean(now.unreadable) || isStill);
      pause.hidden = now.is_paused_by_hand;
      resume.hidden = !now.is_paused_by_hand;
      refuse(resume, now.isStopped ? "Its handler is stopped: start that." : "");
    },
  };
}

function heads() {
  const made = COLUMNS.map((column) => {
    const head = element("th", column.isText ? "" : "right");
    head.scope = "col";
    head.append(button("sort", column.name, "", () => {
      isDescending = sortedBy === column ? !isDescending : !column.isText;
      sortedBy = column;
      mark();
      repeat();
    }));
    return head;
  });
  const actions = element("th", "", "Actions");
  actions.scope = "col";
  at("partition-heads").append(...made, actions);
  const mark = () => COLUMNS.forEach((column, n) => {
    if (column === sortedBy) made[n].setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    else made[n].removeAttribute("aria-sort");
  });
  mark();
}

heads();
