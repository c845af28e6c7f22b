// One bar with the number of its microbatch.

const AGAIN = 5; // recompute: a forward made again

/** @param {CanvasRenderingContext2D} g @param {{look: any, again: CanvasPattern, numberPx: number, plain: boolean}} scene `again`: how recompute is filled; `numberPx`: width of the longest number; `plain`: without one @param {any} bars a `Bars` of bars.js @param {number} i */
export function drawBar(g, { look: c, again, numberPx, plain }, bars, i, row, x) {
  const [a, b] = [x(bars.start(i)), x(bars.end(i))];
  const kind = bars.kind(i);
  const w = Math.max(1, b - a - (b - a > 3 ? 0.8 : 0));
  g.fillStyle = kind === AGAIN ? again : (c.kinds[kind] ?? c.ink);
  g.fillRect(a + (b - a > 3 ? 0.4 : 0), row.y, w, row.bar);
  if (plain || b - a < numberPx || kind > 3 || row.bar < 14 || bars.microbatch(i) < 0) return;
  const number = String(bars.microbatch(i)) + (bars.count(i) > 1 ? `–${bars.microbatch(i) + bars.count(i) - 1}` : "");
  if (bars.count(i) > 1 && number.length * 7 > b - a) return;
  g.font = `11px ${c.font}`;
  g.textAlign = "center";
  g.fillStyle = c.inks[kind];
  g.fillText(number, (a + b) / 2, row.y + row.bar / 2 + 4);
}
