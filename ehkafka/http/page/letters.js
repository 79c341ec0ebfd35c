// Dead letters: list, show, redrive. Read when asked for, not each second.
import { askToRedrive } from "./act.js";
import { applyAccess } from "./access.js";
import { at, element, foreign, write } from "./dom.js";
import { get } from "./stream.js";
import { KEY_CHARACTERS_MAX, VALUE_CHARACTERS_MAX, counted, moment, visible } from "./words.js";

const LETTERS_MAX = 50;
const choice = at("letters-topic");
let shown = "";

export function showLetters(topics) {
  at("no-letters").hidden = topics.length > 0;
  at("letters-line").hidden = !topics.length;
  const key = topics.join("\n");
  if (key === shown) return;
  shown = key;
  choice.replaceChildren(...topics.map((topic) => new Option(visible(topic, 256), topic)));
}

async function show() {
  const topic = choice.value;
  say("Reading …");
  at("letter-list").replaceChildren();
  const answer = await get(`letters?topic=${encodeURIComponent(topic)}&limit=${LETTERS_MAX}`);
  if (!answer.ok) {
    say(visible(answer.text));
    return;
  }
  const found = answer.letters;
  say(found.length ? `${answer.more ? "The newest " : ""}${counted(found.length, "dead letter")} of ${visible(topic, 256)}.` : `${visible(topic, 256)} has no dead letters.`);
  at("letter-list").replaceChildren(...found.map(letter));
}

function say(text) {
  at("letters-note").hidden = false;
  write(at("letters-note"), text);
}

function letter(one) {
  const place = `${one.partition}@${one.offset}`;
  const summary = element("summary", "", element("code", "", place), " ", foreign(one.key, KEY_CHARACTERS_MAX), " ", element("span", "error", foreign(one.error, 200)));
  const facts = element("dl", "facts");
  const fact = (name, value) => facts.append(element("div", "", element("dt", "", name), element("dd", "", foreign(value, VALUE_CHARACTERS_MAX))));
  fact("Written", moment(one.at_s, Date.now() / 1000));
  fact("Came from", one.origin ?? "not known");
  fact("Error", one.error ?? "");
  for (const [name, value] of Object.entries(one.headers ?? {})) fact(visible(name, 120), value);
  const value = element("pre", "value", visible(one.value ?? "(no value)", VALUE_CHARACTERS_MAX));
  return element("li", "", element("details", "fold", summary, facts, value));
}

at("letters-show").addEventListener("click", show);
at("letters-redrive").addEventListener("click", ({ currentTarget }) => askToRedrive(currentTarget, choice.value));
applyAccess(at("letters"));
