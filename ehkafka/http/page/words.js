// Words for numbers, times and received values. Nothing here touches the document.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const hundredth = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const NONE = "–";
export const KEY_CHARACTERS_MAX = 200;
export const VALUE_CHARACTERS_MAX = 1000;
export const SENTENCE_CHARACTERS_MAX = 600;
export const STACK_CHARACTERS_MAX = 20_000;

export const number = (value) => (Number.isFinite(value) ? whole.format(value) : NONE);
export const rate = (value) => (Number.isFinite(value) ? (value < 10 ? tenth : whole).format(value) : NONE);
export const short = (value) => (value < 10_000 ? tenth : compact).format(value);
export const time = (atS) => clock.format(new Date(atS * 1000));
export const timeExact = (atS) => exact.format(new Date(atS * 1000));
export const moment = (atS, nowS) => (Math.abs(nowS - atS) < 43_200 ? exact : day).format(new Date(atS * 1000));
export const counted = (count, one, many) => `${number(count)} ${count === 1 ? one : many ?? `${one}s`}`;

// A length of time in the two units that matter.
export function span(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  if (seconds < 1) return `${hundredth.format(Math.max(0, seconds))} s`;
  if (seconds < 10) return `${tenth.format(seconds)} s`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 90) return two(minutes, "min", Math.floor(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 36) return two(hours, "h", minutes % 60, "min");
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

const two = (large, unit, small, smaller) => (small ? `${large} ${unit} ${small} ${smaller}` : `${large} ${unit}`);

// Control and format characters, lone surrogates, other line ends: what would move, hide or turn text around.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const HIDDEN_BUT_LINES = /(?!\n)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

function escaped(character) {
  const code = character.codePointAt(0);
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

// A received value as one line of visible characters, cut.
export function visible(text, charactersMax = SENTENCE_CHARACTERS_MAX) {
  return cut(text, charactersMax).replace(HIDDEN, escaped);
}

export function visibleLines(text, charactersMax = STACK_CHARACTERS_MAX) {
  return cut(text, charactersMax).replaceAll("\r\n", "\n").replace(HIDDEN_BUT_LINES, escaped);
}

function cut(given, charactersMax) {
  const text = String(given ?? "");
  if (text.length <= charactersMax) return text;
  // Not between the halves of a character.
  const end = /[\ud800-\udbff]/.test(text[charactersMax - 2]) ? charactersMax - 2 : charactersMax - 1;
  return `${text.slice(0, end)}…`;
}

// The error of a key on hold says what it waits for; it is shown apart.
export const stateOf = ({ state, status, last_error: error }) => visible(state === error ? status : state, 120);

