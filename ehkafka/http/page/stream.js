// The server's state, once a second: by its event stream, or by asking where there is none.

import { visible } from "./words.js";

const SILENCE_MS = 5000;
const ASK_AGAIN_MS = [1000, 2000, 5000];
const ANSWER_MS = 8000;

class Refused extends Error {
  constructor(status, text) {
    super(`it answered ${status}${text ? ` (${visible(text, 300)})` : ""}`);
  }
}

// `on.state`, `on.event`, `on.locked(text)` (a token is needed), `on.age(ms, problem)` about once a second.
export function follow(on) {
  let source = null;
  let heardAtMs = null;
  let openedAtMs = 0;
  let failures = 0;
  let problem = "";
  let isLocked = false;
  let timer = null;

  const take = (text) => {
    const state = JSON.parse(text);
    heardAtMs = performance.now();
    failures = 0;
    problem = "";
    on.state(state);
  };

  function open() {
    source?.close();
    source = new EventSource("events");
    openedAtMs = performance.now();
    source.addEventListener("state", ({ data }) => take(data));
    source.addEventListener("event", ({ data }) => on.event(JSON.parse(data)));
    source.addEventListener("error", () => leave());
  }

  // Asks instead, soon; the stream is tried with each answer.
  function leave() {
    source?.close();
    source = null;
    if (timer !== null || isLocked) return;
    const waitMs = ASK_AGAIN_MS[Math.min(failures, ASK_AGAIN_MS.length - 1)];
    failures += 1;
    timer = setTimeout(ask, waitMs);
  }

  async function ask() {
    clearTimeout(timer);
    timer = null;
    try {
      const answer = await fetch("state", { signal: AbortSignal.timeout(ANSWER_MS), cache: "no-store" });
      if (answer.status === 401) {
        isLocked = true;
        on.locked((await answer.json()).text);
        return;
      }
      if (!answer.ok) throw new Refused(answer.status, (await content(answer)).text);
      const failed = failures;
      take(await answer.text());
      // A server without room for one more stream is asked every few seconds.
      failures = failed;
      open();
    } catch (error) {
      problem = error instanceof Refused ? error.message : "it does not answer";
      leave();
    }
  }

  setInterval(() => {
    if (isLocked) return;
    const now = performance.now();
    if (source && now - Math.max(openedAtMs, heardAtMs ?? 0) > SILENCE_MS) {
      problem = "it sends no data";
      leave();
    }
    on.age(heardAtMs === null ? null : now - heardAtMs, problem);
  }, 1000);

  ask();
  return {
    // After a token was given or forgotten.
    again() {
      isLocked = false;
      failures = 0;
      source?.close();
      source = null;
      ask();
    },
  };
}

// Returns `{ok, status, text, …}` of an answer; what cannot be reached is an answer with a sentence, too.
export async function send(path, body, waitMs = 30_000) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify(body ?? {}),
      signal: AbortSignal.timeout(waitMs),
    });
    return { ok: answer.ok, status: answer.status, ...(await content(answer)) };
  } catch {
    return { ok: false, status: 0, text: "The server does not answer. The action may or may not have been done: check its effect before you repeat it." };
  }
}

export async function get(path) {
  try {
    const answer = await fetch(path, { signal: AbortSignal.timeout(30_000), cache: "no-store" });
    return { ok: answer.ok, status: answer.status, ...(await content(answer)) };
  } catch {
    return { ok: false, status: 0, text: "The server does not answer." };
  }
}

async function content(answer) {
  if (answer.status === 204) return {};
  try {
    return await answer.json();
  } catch {
    return { text: `The server answered ${answer.status}.` };
  }
}
