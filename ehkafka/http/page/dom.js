// The document: text alone ever reaches it. No string is parsed as HTML on this page.
import { visible } from "./words.js";

export const at = (id) => document.getElementById(id);

export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// Text from outside: it cannot turn its neighbours around.
export function foreign(text, charactersMax) {
  const made = element("bdi", "foreign");
  write(made, visible(text, charactersMax));
  return made;
}

// Only what differs is written: a selection and a screen reader's place stay.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function button(className, label, described, onClick) {
  const made = element("button", className, label);
  made.type = "button";
  if (described) made.setAttribute("aria-label", described);
  made.addEventListener("click", () => onClick(made));
  return made;
}

export function fold(label, ...children) {
  const summary = element("summary", "", label);
  return { box: element("details", "fold", summary, ...children), summary };
}

// Children by name: made once, then filled, so that focus, open folds and scrolling survive each second.
export class Kept {
  constructor(where, make) {
    this.where = where;
    this.make = make;
    this.parts = new Map();
  }

  show(items, nameOf) {
    const wanted = new Map(items.map((item) => [nameOf(item), item]));
    for (const [name, part] of this.parts) {
      if (wanted.has(name)) continue;
      part.node.remove();
      this.parts.delete(name);
    }
    // A node that is moved loses the focus.
    const mayMove = !this.where.contains(document.activeElement);
    let place = this.where.firstChild;
    for (const [name, item] of wanted) {
      let part = this.parts.get(name);
      if (!part) {
        part = this.make(item);
        this.parts.set(name, part);
        this.where.insertBefore(part.node, place);
      } else if (part.node === place) {
        place = place.nextSibling;
      } else if (mayMove) {
        this.where.insertBefore(part.node, place);
      }
      part.fill(item);
    }
  }
}

// A table's row: the first cell heads it; `fill` gets what `cells` gives, texts or nodes.
export function row(cells, className = "") {
  const node = element("tr", className);
  const made = cells.map((kind, n) => {
    const cell = element(n ? "td" : "th", kind);
    if (!n) cell.scope = "row";
    return cell;
  });
  node.append(...made);
  return { node, cells: made };
}
