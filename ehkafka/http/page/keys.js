// What holds it up: a card for each key that holds a commit and is stuck, rows for all others.
import { askToAct, word } from "./act.js";
import { applyAccess, refuse } from "./access.js";
import { Kept, at, button, element, fold, foreign, row, write } from "./dom.js";
import { KEY_CHARACTERS_MAX, VALUE_CHARACTERS_MAX, counted, number, span, stateOf, visible, visibleLines } from "./words.js";

// Every busy partition has an oldest record; one that is younger, and on its way, holds nothing up.
const YOUNG_S = 2;
const CARDS_MAX = 8;
const ROWS_MAX = 200;
const ON_THEIR_WAY = ["running", "queued"];

const actionsOf = (key) => [key.status === "waiting: paused" ? "resume" : "pause", "retry", "skip", "dead_letter"];

const cards = new Kept(at("cards"), makeCard);
const rows = new Kept(at("other-rows"), makeRow);
let repeat = () => {};

export function showKeys({ keys, snapshot }) {
  const stacks = new Map((snapshot.overdue ?? []).map((one) => [`${one.partition.topic}/${one.partition.partition}@${one.offset}`, one]));
  const isStuck = (key) => key.is_blocking && (!ON_THEIR_WAY.includes(key.status) || key.age_s >= YOUNG_S);
  const stuck = keys.filter(isStuck);
  const shown = stuck.slice(0, CARDS_MAX).map((key) => ({ ...key, overdue: stacks.get(key.name) }));
  const others = [...stuck.slice(CARDS_MAX), ...keys.filter((key) => !isStuck(key))];
  at("nothing-holds").hidden = stuck.length > 0;
  cards.show(shown, (key) => key.name);
  at("more-cards").hidden = stuck.length <= CARDS_MAX;
  write(at("more-cards"), `${counted(stuck.length - CARDS_MAX, "more key holds", "more keys hold")} up a commit, listed below, the oldest first.`);
  showOthers(others);
  applyAccess(at("holding"));
}

function showOthers(others) {
  repeat = () => {
    showOthers(others);
    applyAccess(at("holding"));
  };
  const box = at("other-keys");
  box.hidden = !others.length;
  const waiting = others.filter((key) => !ON_THEIR_WAY.includes(key.status)).length;
  const cut = others.length > ROWS_MAX ? `, the first ${ROWS_MAX} shown` : "";
  write(box.querySelector("summary"), `Other keys: ${number(waiting)} waiting, ${number(others.length - waiting)} in progress${cut}`);
  rows.show(box.open ? others.slice(0, ROWS_MAX) : [], (key) => key.name);
}

function makeCard(key) {
  const badge = element("span", "badge");
  const name = element("code", "where", visible(key.name, 300));
  const keyText = foreign(key.key, KEY_CHARACTERS_MAX);
  keyText.classList.add("key");
  const facts = element("p", "note");
  const error = element("p", "error");
  const value = element("pre", "value");
  const stack = element("pre", "code");
  stack.tabIndex = 0;
  const folded = fold("Stack", stack);
  const buttons = element("p", "buttons");
  let current = key;
  const made = new Map();
  const node = element("article", "card",
    element("div", "card-head", badge, element("h3", "", "Key ", keyText), name),
    facts, error, value, folded.box, buttons);
  node.dataset.name = key.name;
  return {
    node,
    fill(now) {
      current = now;
      write(badge, visible(now.status, 24));
      badge.dataset.status = now.status;
      write(keyText, visible(now.key, KEY_CHARACTERS_MAX));
      write(facts, factsOf(now));
      error.hidden = !now.last_error;
      write(error, visible(now.last_error));
      value.hidden = now.value === null || now.value === undefined;
      write(value, visible(now.value, VALUE_CHARACTERS_MAX));
      folded.box.hidden = !now.stack;
      write(stack, visibleLines(now.stack));
      showButtons(buttons, made, now, () => current);
    },
  };
}

function factsOf(key) {
  const facts = [
    `Handler ${visible(key.handler, 80)}`,
    ...(Number.isFinite(key.member) ? [`member ${key.member}`] : []),
    ...(stateOf(key) === key.status ? [] : [stateOf(key)]),
    `received ${span(key.age_s)} ago`,
    counted(key.attempts, "attempt"),
    key.records > 1 ? `${number(key.records)} queued records of the key` : "no other record of the key is queued",
  ];
  if (key.overdue) facts.push(`running for ${span(key.overdue.running_s)} on ${visible(key.overdue.worker, 60)}, its deadline is ${span(key.overdue.deadline_s)}`);
  return facts.join(" · ");
}

function showButtons(where, made, key, current) {
  const wanted = actionsOf(key);
  for (const [action, one] of made) one.hidden = !wanted.includes(action);
  for (const action of wanted) {
    if (!made.has(action)) {
      const label = `${word(action)} key ${visible(key.key, 60)}`;
      made.set(action, button(`act ${action}`, word(action), label, (from) => askAbout(from, action, current())));
      where.append(made.get(action));
    }
    const why = key.refused?.[action];
    refuse(made.get(action), why && `${key.name} ${why}`);
  }
}

function askAbout(from, action, key) {
  const { name, offset, records } = key;
  askToAct(from, { action, target: "key", name, offset, records, subject: `${visible(key.key, KEY_CHARACTERS_MAX)}, ${name}` });
}

function makeRow(key) {
  const { node, cells } = row(["", "", "", "right", "right", "right", "buttons"]);
  const made = new Map();
  let current = key;
  const keyText = foreign(key.key, KEY_CHARACTERS_MAX);
  cells[0].append(keyText);
  node.dataset.name = key.name;
  return {
    node,
    fill(now) {
      current = now;
      write(keyText, visible(now.key, KEY_CHARACTERS_MAX));
      write(cells[1], visible(now.name, 300));
      write(cells[2], stateOf(now));
      cells[2].title = visible(now.last_error);
      write(cells[3], span(now.age_s));
      write(cells[4], number(now.attempts));
      write(cells[5], number(now.records));
      showButtons(cells[6], made, now, () => current);
    },
  };
}

at("other-keys").addEventListener("toggle", () => repeat());
