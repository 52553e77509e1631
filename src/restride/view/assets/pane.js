// How many of what is left out a click opens.
const OPENED = [12, 64, 16, 64];
// Tables that stepping has opened: the oldest are closed again.
const MOST_PASSED = 6;

const element = (name, className = "", text = "") => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
};
const range = (from, to) => (from === to ? `${from}` : `${from}–${to}`);

// One picture: a heading, and tables that wrap over its width.
class Pane {
  constructor(drawn, names, palette) {
    Object.assign(this, { names, label: drawn.label, framed: drawn.framed });
    this.bits = drawn.bits === null ? null : BigInt(drawn.bits);
    [this.hueAxis, this.hues] = palette.map(Number);
    this.layout = new Layout(drawn);
    this.passed = [];
    this.section = element("section", this.bits === null ? "tensor" : "memory");
    const heading = element("h2", "", this.label);
    if (drawn.title !== drawn.label) heading.append(element("span", "title", drawn.title));
    this.section.append(heading, element("p", "facts", `${drawn.facts}; ${this.axes()}`));
    this.box = element("div", "tables");
    this.section.append(this.box);
    this.render();
  }
  // Which axes run down and across: "o ↓ i →".
  axes() {
    const [, lines, groups, cells] = this.layout.spans;
    const named = (spans) => [...new Set(spans.flatMap((span) => span.levels.map((level) => level[0])))]
      .map((axis) => this.names[axis]).join(" ");
    const down = named([lines]);
    return `${down ? `${down} ↓ ` : ""}${named([groups, cells])} →`;
  }
  byte(offset) {
    const at = offset * this.bits;
    return `${at / 8n}${at % 8n ? ".5" : ""}`;
  }
  render() {
    this.cells = new Map();
    this.gaps = [];
    const [tables] = this.layout.spans;
    this.box.replaceChildren(...tables.parts(this.passed).map((part) =>
      (typeof part === "bigint" ? this.table(part) : this.gap(0, part, "button", `${part.to - part.from + 1n} more`))));
  }
  // What stands for positions that are left out, of the span with that number.
  gap(span, part, name, words, at = []) {
    const made = element(name, "gap", words);
    made.title = "click to open";
    if (name !== "button") made.tabIndex = 0;
    made.onclick = () => {
      const here = made.classList.contains("here") ? this.marked : null;
      const from = here && here[span] >= part.from && here[span] <= part.to ? here[span] : part.from;
      this.layout.spans[span].open(from, part.to, OPENED[span]);
      this.render();
      this.onrender();
    };
    made.onkeydown = (event) => { if (event.key === "Enter" && name !== "button") made.onclick(); };
    this.gaps.push({ made, span, part, at });
    return made;
  }
  table(ordinal) {
    const { layout, names } = this, [tables, lines, groups, cells] = layout.spans;
    const start = layout.moved(layout.origin(), tables.levels, tables.digits(ordinal));
    const figure = element("figure", this.framed ? "framed" : "");
    const caption = element("figcaption", "", this.caption(start));
    if (this.bits !== null)
      caption.append(element("span", "place", `element ${start.offset}, byte ${this.byte(start.offset)}`));
    const made = element("table");
    const columns = groups.parts().map((group) => [group, typeof group === "bigint" ? cells.parts() : null]);
    if (groups.extent > 1n) made.append(this.header(columns));
    for (const line of lines.parts()) {
      const row = made.insertRow();
      if (typeof line !== "bigint") {
        const words = `⋮ ${this.positions(start, lines, line)}`;
        const gap = this.gap(1, line, "td", words, [ordinal]);
        gap.colSpan = 1 + columns.reduce((sum, [, parts]) => sum + (parts ? parts.length : 1), 0);
        row.append(gap);
        continue;
      }
      const there = layout.moved(start, lines.levels, lines.digits(line));
      row.append(this.rowName(there, lines));
      for (const [group, parts] of columns) {
        if (!parts) { row.append(this.gap(2, group, "td", "…", [ordinal, line])); continue; }
        const inside = layout.moved(there, groups.levels, groups.digits(group));
        parts.forEach((part, i) => {
          const td = typeof part === "bigint"
            ? this.cell(layout.moved(inside, cells.levels, cells.digits(part)), [ordinal, line, group, part])
            : this.gap(3, part, "td", "…", [ordinal, line, group]);
          if (i === 0 && groups.extent > 1n) td.classList.add("first");
          row.append(td);
        });
      }
    }
    figure.append(caption, made);
    return figure;
  }
  // Which positions of an axis are left out: "h 7–54".
  positions(start, span, { from, to }) {
    if (span.levels.length !== 1) return `${to - from + 1n} more`;
    const [axis] = span.levels[0];
    const [first, last] = [from, to].map((digit) => this.layout.moved(start, span.levels, [digit]).position[axis]);
    return `${this.names[axis]} ${range(first, last)}`;
  }
  // Above groups: how far they lie behind the start of a line.
  header(columns) {
    const { layout } = this, groups = layout.spans[2];
    const row = element("tr");
    row.append(element("th"));
    for (const [group, parts] of columns) {
      const none = { offset: 0n, position: layout.start.map(() => 0n) };
      const { offset, position } = parts ? layout.moved(none, groups.levels, groups.digits(group)) : none;
      const own = layout.spans[3].levels[0][0];
      const others = [...new Set(groups.levels.map((level) => level[0]))].filter((axis) => axis !== own);
      const words = parts ? `${others.map((axis) => `${this.names[axis]}${position[axis]} `).join("")}+${offset}` : "";
      const name = element("th", "group", words);
      name.colSpan = parts ? parts.length : 1;
      row.append(name);
    }
    return row;
  }
  // The positions that all of a table shares: "n0 c16–31".
  caption({ position }) {
    const [tables, ...inside] = this.layout.spans;
    const covered = new Set(inside.flatMap((span) => span.levels.map((level) => level[0])));
    const found = new Map();
    for (const [axis, , weight] of tables.levels) {
      const last = weight > 1n ? position[axis] + weight - 1n : position[axis];
      found.set(axis, `${this.names[axis]}${range(position[axis], last)}`);
    }
    for (const [axis, n] of this.layout.dims.entries())
      if (!covered.has(BigInt(axis)) && n === 1n) found.set(BigInt(axis), `${this.names[axis]}0`);
    return [...found.entries()].sort(([a], [b]) => Number(a - b)).map(([, words]) => words).join(" ");
  }
  rowName({ offset, position }, lines) {
    const axes = [...new Set(lines.levels.map((level) => level[0]))];
    const name = element("th", "", axes.map((axis) => `${this.names[axis]}${position[axis]}`).join(" "));
    if (this.bits !== null) name.prepend(element("span", "place", `${offset}`));
    return name;
  }
  cell({ offset, position }, at) {
    const kind = this.layout.kind(position), axis = this.layout.spans[3].levels[0][0];
    const td = element("td", kind);
    if (kind === "element") {
      const around = Math.min(this.hues, 64);
      td.textContent = position[axis];
      td.style.setProperty("--h", 200 + Math.floor((320 * Number(position[this.hueAxis] % BigInt(around))) / around));
    }
    if (kind === "beyond") td.textContent = "·";
    td.dataset.i = position.join(",");
    if (this.bits !== null) td.dataset.o = offset;
    Object.assign(td, { pane: this, position, offset, kind, rank: this.layout.rank(position) });
    this.cells.set(at.join(), td);
    return td;
  }
  // The cell at which a position is drawn, or what stands for it.
  find(position) {
    const at = this.layout.locate(position);
    this.marked = at;
    const cell = this.cells.get(at.join());
    if (cell) return cell;
    const hidden = this.gaps.find(({ span, part, at: where }) =>
      where.every((ordinal, i) => ordinal === at[i]) && at[span] >= part.from && at[span] <= part.to);
    return hidden ? hidden.made : null;
  }
  // Draws a position that is left out.
  reveal(position) {
    const at = this.layout.locate(position);
    if (this.cells.has(at.join())) return;
    const [tables, ...inside] = this.layout.spans;
    if (!tables.opened.has(at[0])) this.passed = [...this.passed, at[0]].slice(-MOST_PASSED);
    inside.forEach((span, i) => span.opened.add(at[i + 1]));
    this.render();
  }
  // Scrolls until a cell is in sight, and nothing else of the page.
  show(cell) {
    const at = cell.getBoundingClientRect(), pane = this.section.getBoundingClientRect();
    const off = (low, high, from, to) => (low < from ? low - from - 24 : high > to ? high - to + 24 : 0);
    this.section.scrollBy(
      off(at.left, at.right, pane.left, pane.right), off(at.top, at.bottom, pane.top + 48, pane.bottom));
  }
}
