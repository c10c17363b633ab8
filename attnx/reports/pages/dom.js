"use strict";

// What the scripts of all pages use to find and to make elements.

const SVG = "http://www.w3.org/2000/svg";

const find = (id) => document.getElementById(id);

// An element with attributes and children. An attribute that begins with "on" is a listener; one that is null,
// undefined or false, and a child that is null, are left out.
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same in a drawing.
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Text that may break after one of _ = , / and so not within a word.
const breakable = (text) => (text.match(/[^_=,/]*[_=,/]|[^_=,/]+/g) || []).flatMap((part) => [part, make("wbr")]);
