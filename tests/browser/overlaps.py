"""What stands over something else on a page, and what is cut: found from the geometry of every text."""

from __future__ import annotations

from typing import Any

FINDER = """
(root) => {
  const frame = document.querySelector(root);
  const floats = '[role=menu], [role=tooltip], [role=dialog], [data-float], .b-ghost, .sx-live';
  const shown = (element) => {
    // false of what a closed <details> holds as well
    if (!element.checkVisibility({ visibilityProperty: true })) return false;
    for (let e = element; e && e !== frame; e = e.parentElement) {
      if (Number(getComputedStyle(e).opacity) < 0.05) return false;
    }
    return true;
  };
  // what of a box is left where its ancestors end, and whether one of them scrolls
  const clipped = (element, box) => {
    let { left, top, right, bottom } = box;
    for (let e = element; e && e !== document.body; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.overflow === 'visible' && style.overflowX === 'visible') continue;
      if (e instanceof SVGElement && !(e instanceof SVGSVGElement)) continue;
      const r = e.getBoundingClientRect();
      left = Math.max(left, r.left); right = Math.min(right, r.right);
      top = Math.max(top, r.top); bottom = Math.min(bottom, r.bottom);
    }
    return { left, top, right, bottom };
  };
  const name = (e) => {
    const own = e.closest('[data-widget], .js-plotly-plot') ?? frame;
    const kind = e.getAttribute('class') || e.tagName.toLowerCase();
    return `${own.dataset?.widget ?? 'chart'} ${kind}`;
  };
  const boxes = [], cut = [];
  // whether what cuts a text off can be scrolled, so that nothing is lost
  const scrolls = (element) => {
    for (let e = element; e && e !== frame; e = e.parentElement)
      if (/auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth) return true;
    return Boolean(element.closest('.js-plotly-plot'));
  };
  const edge = frame.getBoundingClientRect();
  const walker = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element || element.closest('script, style, option, title, desc')) continue;
    if (element.closest(floats) || !shown(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const svg = element.closest('text');
    const rects = svg ? [element.getBoundingClientRect()] : range.getClientRects();
    for (const rect of rects) {
      const box = clipped(element, rect);
      const height = box.bottom - box.top, width = box.right - box.left;
      const lost = Math.max(rect.width - width, rect.right - edge.right, edge.left - rect.left);
      if (lost > 1.5 && width > 2 && height >= 3 && !scrolls(element))
        cut.push(`${name(element)} "${node.data.trim().slice(0, 60)}" by ${lost.toFixed(0)} px`);
      if (height < 3 || width < 2) continue;
      // glyphs are lower than their line: what touches with empty line space does not overlap
      const spare = Math.min(0.18 * rect.height, 4);
      boxes.push({ node, element, text: node.data.trim().slice(0, 40), name: name(element),
        left: box.left + 0.5, right: box.right - 0.5,
        top: Math.max(box.top, rect.top + spare), bottom: Math.min(box.bottom, rect.bottom - spare) });
    }
  }
  // the geometry of a text that ends in dots is that of what is left of it
  for (const e of frame.querySelectorAll('*')) {
    if (e instanceof SVGElement || e.closest(floats)) continue;
    if (getComputedStyle(e).textOverflow !== 'ellipsis') continue;
    if (e.clientWidth > 2 && e.scrollWidth > e.clientWidth + 1 && shown(e))
      cut.push(`${name(e)} "${e.textContent.trim().slice(0, 60)}" ends in dots`);
  }
  boxes.sort((a, b) => a.top - b.top);
  const over = [];
  for (let i = 0; i < boxes.length; i++) {
    const a = boxes[i];
    for (let j = i + 1; j < boxes.length && boxes[j].top < a.bottom; j++) {
      const b = boxes[j];
      if (a.node === b.node) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide <= 1 || high <= 1) continue;
      const much = `${wide.toFixed(0)} x ${high.toFixed(0)} px`;
      over.push(`${a.name} "${a.text}" and ${b.name} "${b.text}" by ${much}`);
    }
  }
  return { over: [...new Set(over)], cut: [...new Set(cut)] };
}
"""


def findings(page: Any, root: str) -> list[str]:
    """Say of what lies within `root` which two texts overlap, and which text is cut off.

    What can be scrolled to is not cut off. What floats over the page on purpose (menus, hints, what is
    carried) is not looked at; nor are canvases, whose texts have tests of their own.
    """
    found = page.evaluate(FINDER, root)
    return [*(f"over: {item}" for item in found["over"]), *(f"cut: {item}" for item in found["cut"])]
