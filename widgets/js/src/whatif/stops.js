// Slider positions: a list of values instead of a scale, so that every step of a key is a value that makes sense. No DOM.

/** Position of the stop nearest to a value, by ratio. @param {number[]} stops ascending, above 0 @param {number} value */
export function nearest(stops, value) {
  if (!(value > 0)) return 0;
  let best = 0;
  for (let i = 1; i < stops.length; i += 1) {
    if (Math.abs(Math.log(stops[i] / value)) < Math.abs(Math.log(stops[best] / value))) best = i;
  }
  return best;
}

/** A value as it is typed: whole numbers plain, others with three significant digits. @param {number} value */
export const typed = (value) => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3))));

/** A typed number, or null. Spaces and a comma as thousands separators are allowed. @param {string} text */
export function parsed(text) {
  const plain = text.replace(/[\s\u202f\u00a0]/g, "").replace(/,(?=\d{3}(\D|$))/g, "");
  const number = Number(plain);
  return plain !== "" && Number.isFinite(number) ? number : null;
}
