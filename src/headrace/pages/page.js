"use strict";
(() => {
const LANGUAGE = document.documentElement.lang;
const STEP = 100;
const collator = new Intl.Collator(LANGUAGE, {numeric: true});
const boxes = new Map();

/* Letters without their marks, so that "vang" finds "vàng" and "duong" finds "đường". */
const fold = text => text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "").replace(/đ/g, "d");
const written = number => number.toLocaleString(LANGUAGE);
const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => values[name]);

function number(text) {
  const plain = text.replace(/−/g, "-").replace(LANGUAGE === "vi" ? /\./g : /,/g, "").replace(",", ".");
  const found = plain.match(/-?\d+(\.\d+)?/);
  return found ? Number(found[0]) : NaN;
}

function shown(cell) {
  const first = cell.firstElementChild;
  if (first && first.tagName === "TIME") return first.dateTime || first.textContent;
  return first && first.tagName === "svg" ? "" : cell.textContent.trim();
}

const values = cell => cell.dataset.v === undefined ? [shown(cell)] : cell.dataset.v.split("\n");

class Listing {
  constructor(box) {
    this.box = box;
    this.name = box.dataset.table;
    this.table = box.querySelector("table");
    this.body = this.table.tBodies[0];
    const rest = box.querySelector(":scope > details.rest");
    this.rows = [...this.body.rows, ...(rest ? rest.querySelector("tbody").rows : [])];
    if (rest) rest.remove();
    this.texts = new Map();
    this.order = null;
    this.limit = STEP;
    this.form = box.querySelector(":scope > form");
    this.more = document.createElement("button");
    this.more.type = "button";
    this.more.className = "more";
    this.more.hidden = true;
    this.more.addEventListener("click", () => { this.limit += STEP * 5; this.show(); });
    box.append(this.more);
    this.offerSorting();
    if (this.form) this.offerFilters();
  }

  offerFilters() {
    this.controls = [...this.form.elements].filter(control => control.dataset.f);
    this.form.hidden = false;
    this.form.addEventListener("submit", event => event.preventDefault());
    this.form.addEventListener("input", () => this.changed());
    this.form.addEventListener("reset", () => setTimeout(() => this.changed()));
  }

  offerSorting() {
    for (const [place, head] of [...this.table.tHead.rows[0].cells].entries()) {
      if (head.dataset.sorts === undefined || this.rows.length < 2) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => this.sort(place, head));
    }
  }

  sort(place, head) {
    const numbers = head.classList.contains("n");
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numbers;
    for (const other of this.table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keys = new Map(this.rows.map((row, index) => {
      const text = values(row.cells[place])[0];
      return [row, {index, key: numbers ? number(text) : text}];
    }));
    const without = key => numbers ? Number.isNaN(key) : key === "";
    this.order = (one, other) => {
      const a = keys.get(one), b = keys.get(other);
      if (without(a.key) || without(b.key)) return without(a.key) - without(b.key) || a.index - b.index;
      const compared = numbers ? a.key - b.key : collator.compare(a.key, b.key);
      return (down ? -compared : compared) || a.index - b.index;
    };
    this.limit = STEP;
    this.show();
  }

  changed() {
    this.limit = STEP;
    this.show();
    const address = new URL(location);
    for (const control of this.controls) {
      const name = `${this.name}.${control.name}`;
      if (control.value) address.searchParams.set(name, control.value);
      else address.searchParams.delete(name);
    }
    remember("replaceState", address);
  }

  /* Take the filters out of an address. */
  read(parameters) {
    for (const control of this.controls || []) control.value = parameters.get(`${this.name}.${control.name}`) || "";
    this.limit = STEP;
    this.show();
  }

  textOf(row) {
    if (!this.texts.has(row)) this.texts.set(row, fold([...row.cells].map(shown).join(" ")));
    return this.texts.get(row);
  }

  tests() {
    return (this.controls || []).filter(control => control.value).map(control => {
      const wanted = control.value, folded = fold(wanted), place = Number(control.dataset.c);
      const compare = control.type === "date"
        ? text => text.slice(0, 10) < wanted ? -1 : text.slice(0, 10) > wanted ? 1 : 0
        : text => number(text) - Number(wanted);
      switch (control.dataset.f) {
        case "any": return row => folded.split(/\s+/).every(word => this.textOf(row).includes(word));
        case "text": return row => [...values(row.cells[place]), shown(row.cells[place])].some(text => fold(text).includes(folded));
        case "choice": return row => values(row.cells[place]).includes(wanted);
        case "pick": {
          const exact = row => values(row.cells[place]).includes(wanted);
          return this.rows.some(exact) ? exact : row => values(row.cells[place]).some(text => fold(text).includes(folded));
        }
        case "from": return row => compare(values(row.cells[place])[0]) >= 0;
        default: return row => compare(values(row.cells[place])[0]) <= 0;
      }
    });
  }

  show() {
    const tests = this.tests();
    let found = this.rows.filter(row => tests.every(test => test(row)));
    if (this.order) found = found.sort(this.order);
    this.body.replaceChildren(...found.slice(0, this.limit));
    const left = found.length - Math.min(found.length, this.limit);
    this.more.hidden = !left;
    this.more.textContent = fill(this.box.dataset.more, {count: written(Math.min(left, STEP * 5))});
    if (!this.form) return;
    const counts = {shown: written(found.length), count: written(this.rows.length)};
    this.form.querySelector("output").textContent = found.length
      ? fill(this.box.dataset.shown, counts) : this.box.dataset.none;
  }
}

/* Rows that a service chooses: it is asked for the page with other filters, and its rows take the place of these. */
class Served {
  constructor(box) {
    this.box = box;
    this.name = box.dataset.table;
    this.form = box.querySelector(":scope > form");
    this.asked = location.search;
    this.number = 0;
    this.form.addEventListener("submit", event => { event.preventDefault(); this.changed(); });
    this.form.addEventListener("change", () => this.changed());
  }

  changed() {
    const address = new URL(location);
    address.search = new URLSearchParams([...new FormData(this.form)].filter(([, value]) => value));
    if (address.search === this.asked) return;
    remember("pushState", address);
    this.load();
  }

  read(parameters) {
    for (const control of this.form.elements) {
      if (control.type === "select-one") control.value = parameters.get(control.name) || control.options[0].value;
      else if (control.name && control.type !== "hidden") control.value = parameters.get(control.name) || "";
    }
    if (location.search !== this.asked) this.load();
  }

  async load() {
    const number = ++this.number;
    this.asked = location.search;
    this.box.ariaBusy = "true";
    try {
      const answer = await fetch(location, {headers: {accept: "text/html"}});
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      // Another question was asked meanwhile: its answer is the one to show.
      if (number !== this.number) return;
      const found = page.querySelector(`[data-table="${this.name}"]`);
      const within = this.box.querySelector(".answer").contains(document.activeElement);
      for (const part of [".answer", "output"]) this.box.querySelector(part).replaceWith(found.querySelector(part));
      if (within) this.box.querySelector(".scroll").focus({preventScroll: true});
    } catch {
      location.reload();
    }
    this.box.ariaBusy = null;
  }
}

/* A page that was opened as a file may not change its address. */
function remember(how, address) {
  try { history[how](null, "", address); } catch { /* the filter works all the same */ }
}

for (const box of document.querySelectorAll("[data-table]")) {
  const listing = box.dataset.served === undefined ? new Listing(box) : new Served(box);
  boxes.set(listing.name, listing);
  listing.read(new URLSearchParams(location.search));
}

document.addEventListener("click", event => {
  const link = event.target.closest && event.target.closest('a[href^="?"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const {searchParams: parameters, hash} = new URL(link.getAttribute("href"), location);
  const listing = boxes.get(hash.slice(1));
  if (!listing) return;
  event.preventDefault();
  const address = new URL(location);
  for (const name of [...address.searchParams.keys()]) {
    if (name.startsWith(`${listing.name}.`)) address.searchParams.delete(name);
  }
  for (const [name, value] of parameters) address.searchParams.set(name, value);
  address.hash = hash;
  remember("pushState", address);
  listing.read(parameters);
  const region = listing.box.querySelector(".scroll");
  (document.getElementById(listing.name) || listing.box).scrollIntoView();
  region.focus({preventScroll: true});
});

addEventListener("popstate", () => {
  for (const listing of boxes.values()) listing.read(new URLSearchParams(location.search));
});
})();
