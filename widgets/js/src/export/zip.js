// A .zip of texts without compression (APPNOTE.TXT 6.3, stored entries): enough for a folder of configs. No DOM.

const TABLE = Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k += 1) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

/** CRC-32 as in ISO 3309. @param {Uint8Array} data */
export function crc32(data) {
  let c = 0xffffffff;
  for (const byte of data) c = TABLE[(c ^ byte) & 0xff] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

/** Date and time as MS-DOS counts them. @param {Date} when */
export function dosTime(when) {
  const year = Math.max(1980, when.getFullYear());
  const date = ((year - 1980) << 9) | ((when.getMonth() + 1) << 5) | when.getDate();
  const time = (when.getHours() << 11) | (when.getMinutes() << 5) | (when.getSeconds() >> 1);
  return { date, time };
}

const EXECUTABLE = 0o100755;
const PLAIN = 0o100644;
const UTF8 = 0x0800;
const UNIX = 3 << 8;

/** @param {{name: string, text: string}[]} files names may hold folders @param {Date} when @returns {Uint8Array} */
export function zip(files, when) {
  const coder = new TextEncoder();
  const { date, time } = dosTime(when);
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const file of files) {
    const name = coder.encode(file.name);
    const data = coder.encode(file.text);
    const common = [
      [2, UTF8],
      [2, 0],
      [2, time],
      [2, date],
      [4, crc32(data)],
      [4, data.length],
      [4, data.length],
      [2, name.length],
      [2, 0],
    ];
    const local = record([[4, 0x04034b50], [2, 20], ...common]);
    const mode = file.name.endsWith(".sh") ? EXECUTABLE : PLAIN;
    const entry = [[4, 0x02014b50], [2, UNIX | 20], [2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, mode * 0x10000], [4, offset]];
    directory.push(record(entry), name);
    parts.push(local, name, data);
    offset += local.length + name.length + data.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const end = record([
    [4, 0x06054b50],
    [2, 0],
    [2, 0],
    [2, files.length],
    [2, files.length],
    [4, size],
    [4, offset],
    [2, 0],
  ]);
  return joined([...parts, ...directory, end]);
}

/** Little-endian numbers of so many bytes. @param {number[][]} fields */
function record(fields) {
  const bytes = new Uint8Array(fields.reduce((sum, [width]) => sum + width, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const [width, value] of fields) {
    if (width === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += width;
  }
  return bytes;
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
