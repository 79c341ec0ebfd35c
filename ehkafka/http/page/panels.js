// The panels as the server describes them: a table each, by the column that was chosen, with buttons and stacks.
import { askToAct, word } from "./act.js";
import { applyAccess, refuse } from "./access.js";
import { Kept, at, button, element, fold, row, write } from "./dom.js";
import { NONE, moment, number, rate, span, visible, visibleLines } from "./words.js";

const WORDS = { text: (value) => visible(value, 300), number, rate, span, moment };
const NUMBERS = ["number", "rate", "span"];
// Names of a topic by the partition's number, all else by the number, then by name.
const naturally = new Intl.Collator("en", { numeric: true });

export const words = (kind, value, nowS) => (value === null || value === undefined ? NONE : WORDS[kind](value, nowS));

const sections = new Kept(at("panels"), makePanel);

export function showPanels(panels, nowS) {
  sections.show(panels.map((panel) => ({ ...panel, nowS })), (panel) => panel.name);
  applyAccess(at("panels"));
}

function makePanel({ name, title, columns, target, actions, empty }) {
  let current = null;
  let sortedBy = -1;
  let isDescending = false;
  const heads = columns.map((column, n) => {
    const head = element("th", NUMBERS.includes(column.kind) ? "right" : "");
    head.scope = "col";
    head.append(button("sort", column.name, "", () => {
      isDescending = sortedBy === n ? !isDescending : NUMBERS.includes(column.kind);
      sortedBy = n;
      heads.forEach((one, place) => {
        if (place === n) one.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
        else one.removeAttribute("aria-sort");
      });
      fill(current);
    }));
    return head;
  });
  if (actions.length) heads.push(Object.assign(element("th", "", "Actions"), { scope: "col" }));
  const body = element("tbody");
  body.id = `${name}-rows`;
  const rows = new Kept(body, (one) => makeRow(one, columns, target, actions));
  const box = element("div", "scroll tall", element("table", "", element("thead", "", element("tr", "", ...heads)), body));
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", title);
  const none = element("p", "empty", empty);
  const node = element("section", "panel", element("div", "panel-head", element("h2", "", title)), none, box);
  node.id = name;
  const sorted = (all) => {
    if (sortedBy < 0) return all;
    const sign = isDescending ? -1 : 1;
    const { kind } = columns[sortedBy];
    const compare = kind === "text" ? (a, b) => naturally.compare(a ?? "", b ?? "") : (a, b) => (a ?? -1) - (b ?? -1);
    return [...all].sort((a, b) => sign * compare(a.cells[sortedBy], b.cells[sortedBy]) || naturally.compare(a.name, b.name));
  };
  const fill = (now) => {
    current = now;
    const isEmpty = !now.rows.length;
    node.hidden = isEmpty && !empty;
    none.hidden = !isEmpty;
    box.hidden = isEmpty;
    rows.show(sorted(now.rows).map((one) => ({ ...one, nowS: now.nowS })), (one) => one.name);
    applyAccess(node);
  };
  return { node, fill };
}

function makeRow(one, columns, target, actions) {
  const kinds = columns.map(({ kind }) => (NUMBERS.includes(kind) ? "right" : kind === "text" ? "words" : ""));
  const { node, cells } = row(actions.length ? [...kinds, "buttons"] : kinds);
  node.dataset.name = visible(one.name, 300);
  const texts = cells.slice(0, columns.length).map((cell) => cell.appendChild(element("bdi")));
  const stack = element("pre", "code");
  stack.tabIndex = 0;
  const folded = fold("Last stack", stack);
  if ("stack" in one) cells[columns.length - 1].append(folded.box);
  const made = new Map(actions.map((action) => {
    const subject = visible(one.name, 300);
    return [action, button("act", word(action), `${word(action)} ${target} ${subject}`, (from) => askToAct(from, { action, target, name: one.name, subject }))];
  }));
  cells.at(-1).append(...made.values());
  return {
    node,
    fill(now) {
      columns.forEach(({ kind }, n) => write(texts[n], words(kind, now.cells[n], now.nowS)));
      node.classList.toggle("attention", now.is_urgent);
      folded.box.hidden = !now.stack;
      write(stack, visibleLines(now.stack));
      for (const [action, its] of made) {
        its.hidden = now.do?.[action] === undefined;
        refuse(its, now.do?.[action] ?? "");
      }
    },
  };
}
