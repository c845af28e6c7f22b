// What is drawn while an action is carried along its lane: where it was, where it is, and the gap it would go to.

export function drawCarried(g, scene, bars, place, x) {
  const { look: c, carry } = scene;
  const row = place.rows[bars.lane(carry.i)];
  const [from, to] = [x(bars.start(carry.i)), x(bars.end(carry.i))];
  const wide = Math.max(3, to - from);
  g.save();
  g.globalAlpha = 0.65;
  g.fillStyle = c.bg;
  g.fillRect(from, row.y, wide, row.bar);
  g.globalAlpha = 1;
  g.setLineDash([3, 2]);
  g.strokeStyle = c["ink-2"];
  g.lineWidth = 1;
  g.strokeRect(from + 0.5, row.y + 0.5, Math.max(2, wide - 1), row.bar - 1);
  g.setLineDash([]);
  const at = x(carry.t) - carry.grab * wide;
  g.globalAlpha = 0.85;
  g.fillStyle = c.kinds[bars.kind(carry.i)] ?? c.ink;
  g.fillRect(at, row.y - 3, wide, row.bar + 6);
  g.globalAlpha = 1;
  g.strokeStyle = c.brand;
  g.lineWidth = 2;
  g.strokeRect(at, row.y - 3, wide, row.bar + 6);
  if (carry.place) {
    const gap = x(carry.place.t);
    g.fillStyle = c.brand;
    g.fillRect(gap - 1.5, row.y - 8, 3, row.bar + 16);
    g.beginPath();
    g.moveTo(gap - 5, row.y - 8);
    g.lineTo(gap + 5, row.y - 8);
    g.lineTo(gap, row.y - 2);
    g.fill();
  }
  g.restore();
}
