// Levels are [axis, extent, weight, stride] as BigInt: offsets may be larger than numbers are exact.
const whole = (texts) => texts.map(BigInt);

// Levels counted through together, the slowest first; an ordinal is one digit of each.
class Span {
  constructor({ levels, kept }) {
    this.levels = levels.map(whole);
    this.extent = this.levels.reduce((product, level) => product * level[1], 1n);
    this.first = whole(kept);
    this.opened = new Set(this.first);
  }
  digits(ordinal) {
    const found = [];
    for (const [, extent] of [...this.levels].reverse()) {
      found.unshift(ordinal % extent);
      ordinal /= extent;
    }
    return found;
  }
  // The ordinal at which a position lies, whose axes run from `start`.
  at(position, start) {
    return this.levels.reduce((ordinal, [axis, extent, weight]) => {
      const digit = ((position[axis] - start[axis]) / weight) % extent;
      return ordinal * extent + digit;
    }, 0n);
  }
  // The ordinals that are drawn, and between them what is left out: {from, to}. A single one is drawn.
  parts(more = []) {
    const ordinals = [...new Set([...this.opened, ...more])].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    const found = [];
    let next = 0n;
    for (const ordinal of [...ordinals, this.extent]) {
      if (ordinal > next) found.push(ordinal - next > 1n ? { from: next, to: ordinal - 1n } : next);
      if (ordinal < this.extent) found.push(ordinal);
      next = ordinal + 1n;
    }
    return found;
  }
  open(from, to, most) {
    for (let ordinal = from; ordinal <= to && ordinal < from + BigInt(most); ordinal++) this.opened.add(ordinal);
  }
}

// A layout as tables of lines, groups and cells.
class Layout {
  constructor({ dims, padded, offset, position, order, spans }) {
    this.dims = whole(dims);
    this.padded = whole(padded);
    this.offset = BigInt(offset);
    this.start = whole(position);
    this.order = order.map(whole);
    this.spans = ["tables", "lines", "groups", "cells"].map((name) => new Span(spans[name]));
    this.places = this.order.reduce((product, level) => product * level[1], 1n);
  }
  // Where the digits of these levels lie: {offset, position}.
  moved({ offset, position }, levels, digits) {
    const place = [...position];
    levels.forEach(([axis, , weight, stride], i) => {
      place[axis] += digits[i] * weight;
      offset += digits[i] * stride;
    });
    return { offset, position: place };
  }
  origin() { return { offset: this.offset, position: this.start }; }
  // The place that is the nth of memory.
  nth(ordinal) {
    const digits = [];
    for (const [, extent] of [...this.order].reverse()) {
      digits.unshift(ordinal % extent);
      ordinal /= extent;
    }
    return this.moved(this.origin(), this.order, digits);
  }
  // The other way round: which of memory's places a position is.
  rank(position) {
    return this.order.reduce((ordinal, [axis, extent, weight]) => {
      const digit = ((position[axis] - this.start[axis]) / weight) % extent;
      return ordinal * extent + digit;
    }, 0n);
  }
  // The ordinals of table, line, group and cell at which a position lies.
  locate(position) { return this.spans.map((span) => span.at(position, this.start)); }
  offsetOf(position) { return this.nth(this.rank(position)).offset; }
  kind(position) {
    if (position.some((i, d) => i >= this.padded[d])) return "beyond";
    return position.some((i, d) => i >= this.dims[d]) ? "padding" : "element";
  }
}
