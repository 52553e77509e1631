// The page: fields, panes of rows of cells, a walk.
const get = (id) => document.getElementById(id);
const made = (name, className = "", textContent = "") => Object.assign(document.createElement(name), { className, textContent });
const MOST = 2 ** 18, CELLS = 16, ROWS = 40;
const FIELDS = ["a", "b", "dims", "type", "line", "order"];
// The digits of a number, the first axis the slowest.
const digitsOf = (number, dims) => {
  const step = (rest, n, d) => { found[d] = rest % n; return (rest - found[d]) / n; }, found = [];
  dims.reduceRight(step, number);
  return found;
};
const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
// The numbers of elements: their places in the order of indices.
class Numbers {
  constructor({ dims, isColumnMajor }) {
    this.dims = dims.map(Number);
    this.steps = this.dims.map(() => 1);
    const axes = [...dims.keys()];
    this.axes = isColumnMajor ? axes : axes.reverse();
    this.total = this.axes.reduce((step, d) => { this.steps[d] = step; return step * this.dims[d]; }, 1);
  }
  of(index) { return index.reduce((sum, i, d) => sum + i * this.steps[d], 0); }
  index(number) { return this.dims.map((n, d) => Math.floor(number / this.steps[d]) % n); }
}

// All places of a layout in the order of memory, padding too, whose number is -1.
class Places {
  constructor(layout, numbers) {
    const padded = layout.padded.map(Number), total = padded.reduce((product, n) => product * n, 1);
    const shares = padded.map((n, axis) => Float64Array.from({ length: n }, (_, i) => Number(layout.digits.reduce((sum, digit) =>
      (digit.axis === axis ? sum + ((BigInt(i) / digit.weight) % digit.extent) * digit.stride : sum), 0n))));
    const offsets = new Float64Array(total), found = new Int32Array(total), index = padded.map(() => 0);
    this.offsets = new Float64Array(numbers.total);
    for (let at = 0; at < total; at++) {
      const offset = Number(layout.offset) + index.reduce((sum, i, d) => sum + shares[d][i], 0);
      offsets[at] = layout.swizzle ? Number(swizzled(layout, BigInt(offset))) : offset;
      found[at] = index.every((i, d) => i < numbers.dims[d]) ? numbers.of(index) : -1;
      if (found[at] >= 0) this.offsets[found[at]] = offsets[at];
      for (let d = padded.length - 1; d >= 0 && ++index[d] === padded[d]; d--) index[d] = 0;
    }
    const order = Uint32Array.from(found.keys()).sort((a, b) => offsets[a] - offsets[b] || found[a] - found[b]);
    Object.assign(this, { padded, at: order, rank: new Int32Array(numbers.total), padding: total - numbers.total });
    this.offset = Float64Array.from(order, (at) => offsets[at]);
    this.number = Int32Array.from(order, (at) => found[at]);
    this.number.forEach((number, i) => { if (number >= 0) this.rank[number] = i; });
  }
  index(i) { return digitsOf(this.at[i], this.padded); }
}

// Rows of one order of elements, drawn around the one that is marked. `row` gives {head, gap, line, cells}.
class Pane {
  constructor(key, title, facts) {
    this.key = key;
    this.section = made("section", key);
    const head = made("h2", "", key === "tensor" ? "tensor" : `memory ${key.toUpperCase()}`);
    head.append(made("span", "title", title));
    this.body = made("table");
    this.section.append(head, made("p", "facts", facts), this.body);
    this.top = 0;
  }
  draw() {
    const last = Math.min(this.height, this.top + ROWS), rows = [];
    const push = (...cells) => { rows.push(made("tr")); rows.at(-1).append(...cells); };
    const across = (style, words) => push(Object.assign(made("td", style, words), { colSpan: CELLS + 1 }));
    const more = (n, top, words) => {
      across("gap", `⋮ ${count(n, "row")} ${words}`);
      rows.at(-1).onclick = () => { this.top = Math.max(0, top); this.draw(); mark(false); };
    };
    this.cells = [];
    if (this.top) more(this.top, this.top - ROWS, "before");
    if (this.heads) push(...this.heads.map((words) => made("th", "column", words)));
    for (let i = this.top; i < last; i++) {
      const { head, gap, line, cells } = this.row(i);
      if (gap) across("void", `⋮ ${gap}`);
      push(made("th", "", head), ...cells.map((cell) => (cell ? this.cell(cell) : made("td", "void"))));
      rows.at(-1).dataset.line = line ?? "";
    }
    if (last < this.height) more(this.height - last, last, "behind");
    this.body.replaceChildren(...rows);
  }
  cell(cell) {
    const td = made("td", cell.number < 0 ? "padding" : "element", cell.words);
    if (cell.number >= 0) td.style.setProperty("--h", hue(numbers.index(cell.number)));
    this.cells.push({ td, ...cell });
    return Object.assign(td, { title: cell.tip, onclick: () => choose(this, cell.step) });
  }
  reveal(step) {
    const row = this.rowOf(step);
    if (row < this.top || row >= this.top + ROWS) { this.top = Math.max(0, row - ROWS / 4); this.draw(); }
  }
}
class TensorPane extends Pane {
  constructor(a) {
    super("tensor", `${layouts.a.isColumnMajor ? "modes " : ""}${layouts.a.names.join(" ")}`, `${count(numbers.total, "element")}; a cell is the offset in memory A`);
    // The last axis of more than one position runs across.
    const { dims } = numbers, axis = Math.max(0, dims.findLastIndex((m) => m > 1));
    const n = dims[axis], outer = dims.with(axis, 1), chunks = Math.ceil(n / CELLS), steps = numbers.total;
    Object.assign(this, { steps, height: steps / n * chunks, jump: dims[numbers.axes[0]] });
    this.row = (i) => {
      const start = digitsOf(Math.floor(i / chunks), outer), from = (i % chunks) * CELLS;
      const cells = Array.from({ length: Math.min(CELLS, n - from) }, (_, j) => {
        const index = start.with(axis, from + j), number = numbers.of(index);
        return { step: number, number, words: a.offsets[number], tip: place(index) };
      });
      const head = place(start).split(" ").toSpliced(axis, 1);
      return { head: (chunks > 1 ? [...head, `+${from}`] : head).join(" "), cells };
    };
    this.rowOf = (step) => {
      const at = numbers.index(step), row = at.with(axis, 0).reduce((sum, i, d) => sum * outer[d] + i, 0);
      return row * chunks + Math.floor(at[axis] / CELLS);
    };
    this.heads = [`${layouts.a.names[axis]} →`, ...Array(Math.min(n, CELLS)).keys()];
  }
  number(step) { return step; }
  step(number) { return number; }
}
class MemoryPane extends Pane {
  constructor(key, layout) {
    const places = new Places(layout, numbers), bits = Number(layout.bits);
    const size = bits * (layout.swizzle ? places.offset.at(-1) + 1 : Number(layout.size));
    const perLine = Number(get("line").value) * 8 / bits, wide = Math.min(layouts.b ? CELLS / 2 : CELLS, perLine);
    const line = (offset) => Math.floor(offset / perLine), lines = new Set(Array.from(places.offset, line)).size;
    const padding = places.padding ? `, ${places.padding.toLocaleString("en")} of them padding` : "";
    const facts = `${count(places.at.length, "element")}${padding}; ${count(Math.ceil(size / 8), "byte")} of ${layout.type}`;
    const cute = layout.isColumnMajor ? "" : `; as CuTe: ${cuteText(layout)}`;
    super(key, layout.title, `${facts}; ${count(lines, "line")}${cute}`);
    Object.assign(this, { places, bits, line, lines, steps: places.at.length, jump: wide });
    // The first step of each row, and the row of each step.
    const starts = [], rows = new Int32Array(this.steps), of = (i) => Math.floor(places.offset[i] / wide);
    rows.forEach((_, i) => { if (!i || of(i) !== of(i - 1)) starts.push(i); rows[i] = starts.length - 1; });
    Object.assign(this, { height: starts.length, rowOf: (step) => rows[step] });
    this.row = (i) => {
      const base = of(starts[i]) * wide, cells = Array(wide).fill(null);
      for (let step = starts[i]; step < (starts[i + 1] ?? this.steps); step++) {
        const at = places.offset[step] - base, number = places.number[step], kind = number < 0 ? "padding " : "";
        const tip = `${kind}${place(places.index(step))}: element ${base + at}, byte ${this.byte(base + at)}`;
        // Several elements may share a place.
        const { numbers, tip: before } = (cells[at] ??= { step, number, numbers: [], words: number < 0 ? "" : label(number) });
        numbers.push(number);
        Object.assign(cells[at], numbers.length > 1 ? { tip: `${before}\n${tip}`, words: `${label(numbers[0])}+` } : { tip });
      }
      const before = i ? (of(starts[i - 1]) + 1) * wide : base;
      const gap = base > before ? `${this.byte(base - before)} bytes without elements` : "";
      return { head: `${this.byte(base)}`, gap, line: line(base), cells };
    };
  }
  byte(offset) { return offset * this.bits / 8; }
  lineOf(number) { return this.line(this.places.offsets[number]); }
  number(step) { return this.places.number[step]; }
  step(number) { return this.places.rank[number]; }
}

let layouts = {}, numbers = null, panes = [], memories = [], cursor = null, timer = 0, saving = 0;
const hue = (index) => {
  const grown = [...numbers.dims.keys()].filter((d) => numbers.dims[d] > 1), axis = grown.includes(1) ? 1 : grown[0] ?? 0;
  const around = Math.min(numbers.dims[axis], 64);
  return 200 + Math.floor(320 * (index[axis] % around) / around);
};
const place = (index) => index.map((i, d) => (layouts.a.isColumnMajor ? i : `${layouts.a.names[d]}${i}`)).join(" ");
const label = (number) => numbers.index(number).filter((_, d) => numbers.dims[d] > 1).join(",") || "0";
// Parses a field, or writes what is wrong below it.
const read = (id, parse) => {
  const words = get(id).value.trim();
  get(`${id}-error`).textContent = "";
  get(id).removeAttribute("aria-invalid");
  try { return words ? parse(words) : null; } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    get(`${id}-error`).textContent = error.message;
    get(id).setAttribute("aria-invalid", "true");
  }
};
const drawable = (layout) => {
  const total = productOf(layout.padded);
  const check = (is, what, why) => { if (is) throw new Refusal(what, "", why); };
  check(!total || layout.dims.includes(0n), "no elements", "one of the dims is 0");
  check(total > BigInt(MOST), `${total} elements, padding included`, `at most ${MOST} are drawn here`);
  check(layout.size > 2n ** 50n, "offsets past 2**50", "they are not drawn here");
  return layout;
};
// What a reorder from A to B moves.
const reorderFacts = (a, b) => {
  let moved = 0, links = 0, most = 0, lines = 0, line = null, sources = new Set();
  const close = () => { links += sources.size; most = Math.max(most, sources.size); lines += sources.size > 0; };
  a.places.offsets.forEach((offset, i) => { moved += offset * a.bits !== b.places.offsets[i] * b.bits; });
  b.places.number.forEach((number, i) => {
    const at = b.line(b.places.offset[i]);
    if (at !== line) { close(); sources = new Set(); line = at; }
    if (number >= 0) sources.add(a.lineOf(number));
  });
  close();
  const read = new Set(Array.from(a.places.offsets, a.line)).size;
  return `A → B: ${moved.toLocaleString("en")} of ${count(numbers.total, "element")} move; ${count(read, "line")} of ` +
    `${get("line").value} bytes read, ${b.lines.toLocaleString("en")} written; a written line gathers from ` +
    `${(links / lines).toLocaleString("en", { maximumFractionDigits: 1 })} lines on average, ${most} at most`;
};
const walk = () => panes.find((pane) => pane.key === get("order").value) ?? panes[0];
// Marks the place of the cursor in all panes, its line, and the elements that share its line in the last memory.
const mark = (isShown = true) => {
  if (!cursor) return;
  const { pane, step } = cursor, number = pane.number(step), target = memories.at(-1), current = walk();
  const shared = number < 0 ? null : target.lineOf(number), passed = Number(get("step").value), words = [];
  for (const one of panes) {
    const at = number >= 0 ? one.step(number) : one === pane ? step : null;
    if (at !== null && isShown) one.reveal(at);
    for (const { td, step: own, number: n, numbers: all = [n] } of one.cells) {
      const here = number >= 0 ? all.includes(number) : one === pane && own === step;
      td.classList.toggle("here", here);
      if (here && isShown) scrollTo(one.section, td);
      td.classList.toggle("with", shared !== null && one !== target && n >= 0 && all.some((each) => target.lineOf(each) === shared));
      td.classList.toggle("passed", n >= 0 ? current.step(n) < passed : one === current && own < passed);
    }
    if (one === panes[0]) continue;
    const offset = one.places.offset[at], line = at === null ? "" : one.line(offset);
    one.body.querySelectorAll("tr").forEach((row) => row.classList.toggle("line", row.dataset.line === `${line}`));
    if (at !== null) words.push(`${one.key.toUpperCase()}: element ${offset}, byte ${one.byte(offset)}, line ${line}`);
  }
  const index = number >= 0 ? numbers.index(number) : pane.places.index(step);
  get("where").textContent = `${number < 0 ? "padding " : ""}(${place(index)})   ${words.join("   ")}`;
};
const scrollTo = (section, td) => {
  const at = td.getBoundingClientRect(), box = section.getBoundingClientRect();
  const off = (low, high, from, to) => (low < from ? low - from - 24 : high > to ? high - to + 24 : 0);
  section.scrollBy(off(at.left, at.right, box.left, box.right), off(at.top, at.bottom, box.top + 40, box.bottom));
};
// A place that is clicked; of padding the walk goes on in its memory.
const choose = (pane, step) => {
  if (pane.number(step) < 0) get("order").value = pane.key;
  const number = pane.number(step), current = walk();
  go(number < 0 ? step : current.step(number));
};
const go = (step) => {
  const pane = walk(), to = Math.max(0, Math.min(pane.steps - 1, step));
  Object.assign(get("step"), { max: pane.steps - 1, value: to });
  cursor = { pane, step: to };
  mark();
  save();
};
const stop = () => { clearInterval(timer); timer = 0; get("play").textContent = "play"; };
const isAtEnd = () => cursor.step >= walk().steps - 1, tick = () => { go(cursor.step + 1); if (isAtEnd()) stop(); };
const play = () => {
  if (timer || !panes.length) return stop();
  if (!cursor || isAtEnd()) go(0);
  get("play").textContent = "stop";
  timer = setInterval(tick, Number(get("speed").value));
};
// The state is in the address, so that a link has it. Browsers limit how often it changes.
const save = () => {
  const words = new URLSearchParams();
  FIELDS.forEach((id) => { if (get(id).value !== get(id).dataset.usual) words.set(id, get(id).value); });
  if (cursor) words.set("at", cursor.step);
  clearTimeout(saving);
  saving = setTimeout(() => history.replaceState(null, "", `#${words}`), 300);
};
const load = () => {
  const words = new URLSearchParams(location.hash.slice(1) || START);
  for (const id of FIELDS) {
    get(id).value = words.get(id) ?? "";
    get(id).value ||= get(id).dataset.usual;
  }
  update(/^\d{1,9}$/.test(words.get("at") ?? "") ? Number(words.get("at")) : null);
};
const update = (at = null) => {
  stop();
  const dims = read("dims", parseDims), type = get("type").value;
  const a = read("a", (words) => dims !== undefined && drawable(layoutOf(words, dims, type)));
  const b = read("b", (words) => a && drawable(layoutOf(words, a.dims, type)));
  layouts = { a, b };
  panes = memories = [];
  cursor = null;
  get("facts").textContent = "";
  get("where").textContent = HINT;
  if (a) {
    numbers = new Numbers(a);
    memories = ["a", "b"].filter((key) => layouts[key]).map((key) => new MemoryPane(key, layouts[key]));
    panes = [new TensorPane(memories[0].places), ...memories];
    panes.forEach((pane) => pane.draw());
    if (b) get("facts").textContent = reorderFacts(...memories);
  }
  get("panes").style.setProperty("--memories", memories.length);
  get("panes").replaceChildren(...panes.map((pane) => pane.section));
  if (panes.length && at !== null) go(at); else save();
};
const HINT = "Click an element, or walk with ← and →.", START = "a=nChw16c&dims=1x17x2x2";
FIELDS.slice(0, 5).forEach((id) => { get(id).oninput = () => update(); });
const walkTo = (step) => { stop(); if (panes.length) go(step()); };
get("order").onchange = () => walkTo(() => walk().step(Math.max(0, cursor ? cursor.pane.number(cursor.step) : 0)));
get("step").oninput = () => walkTo(() => Number(get("step").value));
get("back").onclick = () => walkTo(() => (cursor?.step ?? 1) - 1);
get("next").onclick = () => walkTo(() => (cursor?.step ?? -1) + 1);
get("play").onclick = play;
get("speed").onchange = stop;
get("swap").onclick = () => { [get("a").value, get("b").value] = [get("b").value, get("a").value]; update(); };
addEventListener("hashchange", load);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const { key, target } = event, within = (what) => target.closest?.(what);
  if (key === "Escape") { target.blur?.(); update(); }
  if (within("input[type=text], select") || (key === " " && within("button, a, summary")) || !panes.length) return;
  const { jump, steps } = walk(), at = cursor ? cursor.step : -1;
  const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + jump, ArrowUp: at - jump, Home: 0, End: steps - 1 };
  if (key === " ") play(); else if (Object.hasOwn(moves, key)) { stop(); go(moves[key]); } else return;
  event.preventDefault();
});
load();
