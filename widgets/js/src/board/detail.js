// The strip below the board: the selection in numbers, or what is being carried.

import { h, keyed, set } from "../common/dom.js";
import { bytes, count, seconds } from "../common/format.js";
import { ownerOf } from "./model.js";
import { deviceWords } from "./lane.js";

export function makeDetail() {
  return h("div", { class: "b-detail" });
}

export function drawDetail(ctx, element) {
  const carried = ctx.preview?.positions;
  const positions = carried ?? ctx.selected;
  const facts = positions.size
    ? factsOf(ctx, positions, carried)
    : [
        {
          key: "hint",
          name: "",
          value: "Drag a block or a boundary. Shift selects a range; Alt+Up and Alt+Down move it; [ and ] shift a boundary.",
        },
      ];
  keyed(
    element,
    facts,
    (fact) => fact.key,
    () => h("span", { class: "b-fact" }, h("span", {}), h("b", {})),
    (span, fact) => {
      set(span.children[0], { text: fact.name });
      set(span.children[1], { text: fact.value });
      span.classList.toggle("title", Boolean(fact.title));
    },
  );
}

function factsOf(ctx, positions, carried) {
  const { catalog } = ctx;
  const sum = { forward_s: 0, backward_s: 0, parameters: 0, saved_bytes: 0, state_bytes: 0, seen: false };
  const lanes = new Set();
  for (const position of positions) {
    const layer = catalog.layers[position];
    for (const key of ["forward_s", "backward_s", "saved_bytes", "state_bytes"]) sum[key] += layer[key];
    if (layer.parameters != null) {
      sum.parameters += layer.parameters;
      sum.seen = true;
    }
    const owner = ownerOf(ctx.view.lanes, position);
    if (owner) lanes.add(owner);
  }
  const where = [...lanes];
  const at = where.length === 1 ? `${where[0].name}, ${deviceWords(where[0])}` : `${where.length} lanes`;
  const last = catalog.layers[Math.max(...positions)];
  return [
    { key: "title", name: carried ? `from ${at}` : at, value: catalog.describe(positions), title: true },
    ...(sum.seen ? [{ key: "parameters", name: "parameters", value: count(sum.parameters) }] : []),
    { key: "forward", name: "forward", value: seconds(sum.forward_s) },
    { key: "backward", name: "backward", value: seconds(sum.backward_s) },
    { key: "state", name: "weights, gradients, optimizer", value: bytes(sum.state_bytes) },
    {
      key: "saved",
      name: "activations",
      value: `${bytes(sum.saved_bytes)}${where.length === 1 ? ` × ${where[0].in_flight} in flight` : " a microbatch"}`,
    },
    ...(last.output_bytes == null ? [] : [{ key: "out", name: "out", value: bytes(last.output_bytes) }]),
  ];
}
