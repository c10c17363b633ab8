"use strict";

// Vectors as strips: a cell for each number, blue above zero, orange below. A strip is {width, scale, bytes}: the
// vectors of all steps, row by row, as signed bytes in base64, of which 127 stands for the number `scale`.

const LARGEST_LEVEL = 127;
const DIVERGING = {
  light: ["#8c3b00", "#f0a35e", "#ffffff", "#6aa9d8", "#08417a"],
  dark: ["#ffc48a", "#b9651b", "#12161c", "#2b78b8", "#a8d8ff"],
};
const decoded = new WeakMap(); // strips to their bytes

function levels(strip, step) {
  if (!decoded.has(strip)) {
    const text = atob(strip.bytes);
    decoded.set(strip, Int8Array.from(text, (letter) => letter.charCodeAt(0)));
  }
  return decoded.get(strip).subarray(step * strip.width, (step + 1) * strip.width);
}

const dot = (first, second) => first.reduce((sum, number, index) => sum + number * second[index], 0);
const bytesOf = (strip, step) => [...levels(strip, step)];

function norm(strip, step) {
  const numbers = bytesOf(strip, step);
  return Math.sqrt(dot(numbers, numbers)) * strip.scale / LARGEST_LEVEL;
}

// The cosine of a step's vector and that of the step before; null at the first step, and of zeros.
function cosineToLast(strip, step) {
  if (!step) return null;
  const [now, last] = [bytesOf(strip, step), bytesOf(strip, step - 1)];
  const lengths = Math.sqrt(dot(now, now) * dot(last, last));
  return lengths ? dot(now, last) / lengths : null;
}

function stripText(strip, step) {
  const cosine = cosineToLast(strip, step);
  return `${strip.width} numbers, norm ${norm(strip, step).toFixed(2)}${cosine === null ? "" : `, cosine ${cosine.toFixed(2)} to the step before`}`;
}

function drawStrip(canvas, strip, step) {
  const numbers = levels(strip, step);
  const context = canvas.getContext("2d");
  const image = context.createImageData(strip.width, 1);
  numbers.forEach((number, index) => image.data.set([...divergingColor(number / LARGEST_LEVEL), 255], 4 * index));
  canvas.width = strip.width;
  context.putImageData(image, 0, 0);
}

// The color of a number from -1 to 1.
function divergingColor(number) {
  const shades = DIVERGING[dark.matches ? "dark" : "light"];
  return between(shades, (number + 1) / 2);
}
