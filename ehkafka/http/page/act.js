// Actions: the server says what one will do, a person confirms, and then it is done.
import { at, element, foreign, write } from "./dom.js";
import { send } from "./stream.js";
import { KEY_CHARACTERS_MAX, counted, visible } from "./words.js";

const WORDS = {
  pause: "Pause", resume: "Resume", retry: "Retry", skip: "Skip", dead_letter: "Dead letter", start: "Start", stop: "Stop",
};
// As long as there are letters.
const REDRIVE_MS = 600_000;
const PAUSES = [["", "until it is resumed"], ["300", "for 5 minutes"], ["3600", "for an hour"], ["86400", "for a day"]];

const dialog = at("dialog");
let asked = 0;
let confirmed = () => {};
let opener = null;
let section = null;

export const word = (action) => WORDS[action];

// `subject`: what the action is on, in words; `records`: of the key, where all of them can be meant.
export function askToAct(from, { action, target, name, offset, records, subject }) {
  const request = { do: action, target, name };
  if (offset !== undefined) request.offset = offset;
  const options = [];
  const preview = () => {
    for (const take of options) take(request);
    ask(send("actions", { ...request, preview: true }), namesOf);
  };
  const parts = [];
  if (["skip", "dead_letter"].includes(action) && records > 1) parts.push(allOfKey(options, preview, records));
  if (action === "pause") parts.push(...pauseOptions(options, preview, target));
  open(from, `${WORDS[action]}?`, subject, parts, WORDS[action]);
  confirmed = () => finish(send("actions", { ...request, preview: false }));
  preview();
}

export function askToRedrive(from, topic) {
  open(from, "Redrive?", topic, [], "Redrive");
  confirmed = () => finish(send("letters/redrive", { topic, preview: false }, REDRIVE_MS));
  ask(send("letters/redrive", { topic, preview: true }));
}

function allOfKey(options, preview, records) {
  const box = element("input");
  box.type = "checkbox";
  box.addEventListener("change", preview);
  options.push((request) => { request.all = box.checked; });
  return element("label", "option", box, element("span", "", `All ${counted(records, "record")} of the key`));
}

function pauseOptions(options, preview, target) {
  if (target === "handler") return [];
  const time = element("select");
  time.append(...PAUSES.map(([seconds, text]) => new Option(text, seconds)));
  const keep = element("input");
  keep.type = "checkbox";
  for (const one of [time, keep]) one.addEventListener("change", preview);
  options.push((request) => {
    request.for_s = time.value ? Number(time.value) : null;
    request.keep = keep.checked;
  });
  return [
    element("label", "option", "How long ", time),
    element("label", "option", keep, element("span", "", "Keep the pause if this process gets the partition again")),
  ];
}

function open(from, title, subject, parts, verb) {
  opener = from;
  section = from.closest("section");
  write(at("dialog-title"), title);
  at("dialog-what").replaceChildren(foreign(subject, KEY_CHARACTERS_MAX));
  at("dialog-options").replaceChildren(...parts);
  write(at("dialog-confirm"), verb);
  at("dialog-confirm").hidden = false;
  if (!dialog.open) dialog.showModal();
  at("dialog-cancel").focus();
}

// Shows what an answer says. Only the last question's answer counts, and only while the dialog is there.
async function ask(question, more = () => {}) {
  const number = ++asked;
  const confirm = at("dialog-confirm");
  confirm.disabled = true;
  say("Loading the preview …", false);
  const answer = await question;
  if (number !== asked || !dialog.open) return;
  say(answer.text, !answer.ok);
  more(answer);
  confirm.disabled = !answer.ok;
  confirm.hidden = !answer.ok;
}

function namesOf(answer) {
  const names = answer.ok ? [] : answer.names ?? [];
  at("dialog-names").hidden = !names.length;
  at("dialog-names").replaceChildren(...names.slice(0, 20).map((name) => element("li", "", foreign(name, KEY_CHARACTERS_MAX))));
}

function say(text, isRefusal) {
  write(at("dialog-text"), visible(text));
  at("dialog-text").classList.toggle("refused", isRefusal);
  at("dialog-names").hidden = true;
}

async function finish(question) {
  const confirm = at("dialog-confirm");
  confirm.disabled = true;
  const number = ++asked;
  const answer = await question;
  if (!answer.ok && number === asked && dialog.open) {
    say(answer.text, true);
    confirm.hidden = true;
    return;
  }
  announce(answer.text, !answer.ok);
  if (number === asked) dialog.close();
}

function announce(text, isRefusal) {
  const done = at("done");
  done.hidden = false;
  done.classList.toggle("refused", isRefusal);
  write(done, visible(text));
}

at("dialog-confirm").addEventListener("click", () => confirmed());
at("dialog-cancel").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => {
  // The browser reports a close with the next frame: by then a key press may have opened the dialog again.
  if (dialog.open) return;
  asked += 1;
  // What the dialog was opened from may be gone by now: then its section.
  if (opener?.isConnected && !opener.disabled) opener.focus();
  else if (section) {
    section.tabIndex = -1;
    section.focus({ preventScroll: true });
  }
});
