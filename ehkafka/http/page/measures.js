// Rates out of counts, and what they say of the future. Nothing here touches the document.
import { partitionName } from "./words.js";

const OVER_S = 10;
const LEAST_S = 0.8;
const FALLS_OVER_S = 60;
// With less than two seconds' worth of records behind the end, an app is at it.
const AT_THE_END_S = 2;

// A record is handled with whichever outcome: the counts are of one each.
const handled = (counted) => counted.finished_records + counted.skipped_records + counted.dead_lettered_records;

// A rate is a difference over the last ten seconds; one over a second would jump about.
export class Rates {
  constructor() {
    this.seen = [];
  }

  note(snapshot) {
    const last = this.seen.at(-1);
    if (last && snapshot.taken_at_s <= last.atS) {
      // The same picture again; or the app was started again, and its clock was put back.
      if (snapshot.taken_at_s < last.atS - OVER_S) this.seen = [];
      else return;
    }
    if (last && snapshot.received_records < last.received_records) this.seen = [];
    const { taken_at_s: atS, received_records } = snapshot;
    const partitions = new Map(snapshot.partitions.map((one) => [partitionName(one.partition), [one.epoch, handled(one)]]));
    this.seen.push({ atS, received_records, handled_records: handled(snapshot), partitions });
    while (this.seen.length > 2 && atS - this.seen[1].atS >= OVER_S) this.seen.shift();
  }

  total(name) {
    const [first, last] = [this.seen[0], this.seen.at(-1)];
    if (!first || last.atS - first.atS < LEAST_S) return null;
    return (last[name] - first[name]) / (last.atS - first.atS);
  }

  // A partition that came back counts from the start again.
  partition(name) {
    const now = this.seen.at(-1)?.partitions.get(name);
    if (!now) return null;
    const since = this.seen.find((one) => one.partitions.get(name)?.[0] === now[0]);
    const seconds = this.seen.at(-1).atS - since.atS;
    return seconds < LEAST_S ? null : Math.max(0, now[1] - since.partitions.get(name)[1]) / seconds;
  }
}

// Seconds until the lag is gone: 0 where it is, Infinity where it does not fall, null where nobody knows yet.
export function untilCaughtUp(lagRecords, history, handledPerS) {
  if (!lagRecords || lagRecords <= AT_THE_END_S * (handledPerS ?? 0)) return 0;
  const times = history?.at_s ?? [];
  const last = times.length - 1;
  const from = times.findIndex((atS, n) => atS >= times[last] - FALLS_OVER_S && history.lag_records[n] !== null);
  if (from < 0 || from === last || history.lag_records[last] === null) return null;
  const fallsPerS = (history.lag_records[from] - history.lag_records[last]) / (times[last] - times[from]);
  return fallsPerS > 0 ? lagRecords / fallsPerS : Infinity;
}
