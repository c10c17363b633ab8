"use strict";

const data = JSON.parse(find("data").textContent);

// A sentence with names in double asterisks.
const sentence = (text) => make("p", {}, ...text.split("**").map((part, place) => (place % 2 ? make("strong", {}, part) : part)));

const isNumber = (text) => /^(< )?-?[\d,.]+( to -?[\d,.]+)?$/.test(text);

function row(cells, tag) {
  return make("tr", {}, ...cells.map((cell) => make(tag, { class: isNumber(cell) ? "number" : null }, ...breakable(cell))));
}

function section(table, place) {
  const id = `table-${place}`;
  return make("section", { "aria-labelledby": id },
    make("h2", { id }, table.title),
    make("div", { class: "scroll" }, make("table", { class: "plain" },
      make("thead", {}, row(table.head, "th")),
      make("tbody", {}, ...table.rows.map((cells) => row(cells, "td"))))),
    table.note ? make("p", { class: "note" }, table.note) : null);
}

find("made").textContent = data.made;
find("verdict").append(...data.sentences.map(sentence));
find("tables").append(...data.tables.map(section));
