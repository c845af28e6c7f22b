// Bytes traits to float32, whatever the host hands over.

/** @param {DataView|ArrayBuffer|Uint8Array|null|undefined} value @returns {Float32Array} */
export function float32(value) {
  if (!value) return new Float32Array(0);
  const buffer = value instanceof ArrayBuffer ? value : value.buffer;
  const offset = value instanceof ArrayBuffer ? 0 : value.byteOffset;
  const length = Math.floor(value.byteLength / 4);
  return offset % 4 ? new Float32Array(buffer.slice(offset, offset + length * 4)) : new Float32Array(buffer, offset, length);
}
