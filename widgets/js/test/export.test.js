import assert from "node:assert/strict";
import { test } from "node:test";
import { tint } from "../src/export/tint.js";
import { crc32, dosTime, zip } from "../src/export/zip.js";

const bytes = (text) => new TextEncoder().encode(text);

test("CRC-32 of the check string of the standard", () => {
  assert.equal(crc32(bytes("123456789")), 0xcbf43926);
  assert.equal(crc32(bytes("")), 0);
});

test("DOS time is local, in steps of two seconds, from 1980", () => {
  const { date, time } = dosTime(new Date(2026, 10, 21, 17, 23, 45));
  assert.deepEqual([date >> 9, (date >> 5) & 15, date & 31], [46, 11, 21]);
  assert.deepEqual([time >> 11, (time >> 5) & 63, time & 31], [17, 23, 22]);
  assert.equal(dosTime(new Date(1970, 0, 1)).date >> 9, 0);
});

/** Read stored entries through the central directory, as an unzipper does. */
function unzip(data) {
  const view = new DataView(data.buffer);
  const end = data.length - 22;
  assert.equal(view.getUint32(end, true), 0x06054b50);
  const count = view.getUint16(end + 10, true);
  let at = view.getUint32(end + 16, true);
  const found = {};
  for (let i = 0; i < count; i += 1) {
    assert.equal(view.getUint32(at, true), 0x02014b50);
    const size = view.getUint32(at + 24, true);
    const length = view.getUint16(at + 28, true);
    const local = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(data.subarray(at + 46, at + 46 + length));
    const start = local + 30 + view.getUint16(local + 26, true);
    const body = data.subarray(start, start + size);
    assert.equal(crc32(body), view.getUint32(at + 16, true));
    found[name] = { text: new TextDecoder().decode(body), mode: view.getUint32(at + 38, true) >>> 16 };
    at += 46 + length;
  }
  assert.equal(at, end);
  return found;
}

test("what is zipped comes out again, folders, umlauts and modes included", () => {
  const files = [
    { name: "plan.yaml", text: "schema: explorer.plan/1\n" },
    { name: "model/config.json", text: '{"größe": "ß"}' },
    { name: "run.sh", text: "#!/bin/sh\n" },
    { name: "empty", text: "" },
  ];
  const found = unzip(zip(files, new Date(2026, 0, 1)));
  assert.deepEqual(
    Object.entries(found).map(([name, { text }]) => ({ name, text })),
    files,
  );
  assert.equal(found["run.sh"].mode & 0o777, 0o755);
  assert.equal(found["plan.yaml"].mode & 0o777, 0o644);
});

const SAMPLES = {
  "a.yaml": 'schema: x  # why\njobs:\n- {name: "a: b"}\n',
  "a.py": 'def f():\n    """Doc # no comment."""\n    return "x"  # yes\n',
  "a.sh": '#!/bin/sh\nRANKS="8" # note\ntorchrun --nnodes "$N"\n',
  "a.json": '{"a": "b", "c": [1, "d"]}',
  "a.csv": "0F0,1F0\n",
  noend: 'a "b" # c',
};

test("a tint never changes the text", () => {
  for (const [name, text] of Object.entries(SAMPLES)) {
    assert.equal(
      tint(name, text)
        .map(([, piece]) => piece)
        .join(""),
      text,
    );
  }
});

test("comments, strings and keys are told apart", () => {
  const of = (name, kind) =>
    tint(name, SAMPLES[name])
      .filter(([found]) => found === kind)
      .map(([, piece]) => piece);
  assert.deepEqual(of("a.yaml", "comment"), ["# why"]);
  assert.deepEqual(of("a.yaml", "string"), ['"a: b"']);
  assert.deepEqual(of("a.py", "comment"), ["# yes"]);
  assert.deepEqual(of("a.json", "key"), ['"a"', '"c"']);
  assert.deepEqual(of("a.json", "string"), ['"b"', '"d"']);
  assert.deepEqual(of("a.csv", "key"), []);
});
