// "How sure": what stands behind a figure's band, in a row below the tiles, opened by the mark beside its name.

import { h, set } from "../common/dom.js";
import { typeset } from "../common/format.js";
import { sureWords } from "./words.js";

export class Sure {
  /** @param {HTMLElement} tiles place of the tiles, whose marks open it */
  constructor(tiles) {
    this.tiles = tiles;
    this.key = null; // of the tile it speaks of
    this.rows = [];
    this.title = h("b", {});
    this.text = h("div", {});
    const close = h("button", { class: "sx-btn", text: "Close", "data-action": "close-sure", on: { click: () => this.open(null) } });
    this.element = h("div", { class: "t-sure", role: "status", hidden: true }, this.title, this.text, close);
    tiles.addEventListener("click", (event) => {
      const key = event.target.closest("[data-sure]")?.dataset.sure;
      if (key) this.open(key === this.key ? null : key);
    });
    for (const place of [tiles, this.element]) {
      place.addEventListener("keydown", (event) => event.key === "Escape" && this.key && this.open(null));
    }
  }

  /** @param {string|null} key of a tile; null closes, and the focus goes back to the mark */
  open(key) {
    const mark = this.mark(this.key);
    this.key = key;
    this.draw(this.rows);
    if (!key) mark?.focus();
  }

  mark(key) {
    return key && this.tiles.querySelector(`[data-sure="${key}"]`);
  }

  /** @param {any[]} rows `view.tiles` */
  draw(rows) {
    this.rows = rows;
    const tile = rows.find((row) => row.key === this.key);
    for (const mark of this.tiles.querySelectorAll("[data-sure]")) set(mark, { "aria-expanded": String(mark.dataset.sure === this.key) });
    this.element.hidden = !tile;
    if (!tile) return;
    const { title, lines } = sureWords(tile);
    set(this.title, { text: typeset(title) });
    const look = lines.join("|");
    if (this.text.dataset.look === look) return;
    this.text.dataset.look = look;
    this.text.replaceChildren(...lines.map((line) => h("p", { text: typeset(line) })));
  }
}
