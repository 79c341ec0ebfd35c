// Who may act: buttons that act are off, with the reason, where actions are not allowed; the token is asked for.
import { at, write } from "./dom.js";
import { send } from "./stream.js";
import { visible } from "./words.js";

let access = { may_act: false, needs_token: false, why_not: "" };
let changed = () => {};

export function showAccess(given) {
  access = given;
  const reason = access.may_act ? "" : visible(access.why_not || "Actions are off.", 300);
  write(at("why-not"), reason);
  at("sign-in").hidden = access.may_act || !access.needs_token;
  at("sign-out").hidden = !access.may_act || !access.needs_token;
  applyAccess(document);
}

// For what was made since.
export function applyAccess(where) {
  for (const one of where.querySelectorAll("button.act")) {
    const reason = access.may_act ? one.dataset.refused ?? "" : access.why_not || "Actions are off.";
    one.disabled = Boolean(reason);
    one.title = visible(reason, 300);
  }
}

// Why the server would refuse what a button asks for; empty where it would not.
export function refuse(button, reason) {
  if (reason) button.dataset.refused = reason;
  else delete button.dataset.refused;
}

export function watchAccess(onChange) {
  changed = onChange;
  at("token-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = at("token");
    const answer = await send("login", { token: field.value });
    field.value = "";
    at("token-wrong").hidden = answer.ok;
    write(at("token-wrong"), answer.ok ? "" : visible(answer.text ?? "The token is wrong."));
    if (!answer.ok) {
      field.focus();
      return;
    }
    at("token-form").hidden = true;
    changed();
  });
  at("sign-in").addEventListener("click", () => askForToken(access.why_not));
  at("sign-out").addEventListener("click", async () => {
    await send("logout");
    changed();
  });
  return askForToken;
}

function askForToken(text) {
  at("token-form").hidden = false;
  at("token-wrong").hidden = true;
  write(at("token-why"), visible(text ?? "", 300));
  at("token").focus();
}
