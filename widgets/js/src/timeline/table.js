// The timeline as a table: the first bars, or all of the microbatch that is followed.

import { bytes, seconds } from "../common/format.js";
import { table } from "../common/table.js";
import { KINDS } from "./bars.js";

const TABLE_ROWS = 400;

/** @param {any[]} plans @param {number|null} microbatch */
export function barsTable(plans, microbatch) {
  const several = plans.length > 1;
  const path = plans.some((plan) => plan.view.critical);
  const rows = plans.flatMap((plan, p) =>
    chosen(plan.bars, microbatch).map((i) => {
      const row = plan.bars.row(i);
      return [
        plan.view.lanes[row.lane]?.name ?? row.lane,
        ...(several ? [plan.view.name || "AB"[p]] : []),
        KINDS[row.kind] ?? row.kind,
        row.microbatch < 0 ? "" : row.microbatch,
        seconds(row.start_s, row.end_s),
        seconds(row.end_s),
        seconds(row.end_s - row.start_s),
        row.bytes > 0 ? bytes(row.bytes) : "",
        ...(path ? [plan.reasons.has(i) ? "yes" : ""] : []),
      ];
    }),
  );
  const columns = [
    "lane",
    ...(several ? ["plan"] : []),
    "kind", "microbatch", "start", "end", "duration", "bytes",
    ...(path ? ["critical path"] : []),
  ];
  const caption = microbatch == null ? "Bars of the timeline" : `Bars of microbatch ${microbatch}`;
  const total = plans.reduce((sum, plan) => sum + (microbatch == null ? plan.bars.length : plan.bars.journey(microbatch).length), 0);
  return table(caption, columns, rows, total);
}

const chosen = (bars, microbatch) => (microbatch == null ? bars.first(TABLE_ROWS) : bars.journey(microbatch).slice(0, TABLE_ROWS));
