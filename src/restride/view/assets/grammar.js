// Tags, CuTe layouts and stored formats as digits of positions, as Python reads them. Numbers are BigInt: offsets
// may be larger than numbers are exact. `tables` are the names and sizes that Python has.
const biggest = (...values) => values.reduce((most, value) => (value > most ? value : most));
const productOf = (values) => values.reduce((product, value) => product * value, 1n);
const tuple = (values) => `(${values.join(", ")}${values.length === 1 ? "," : ""})`;
const quoted = (text) => {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const code = (char) => ({ "\t": "\\t", "\n": "\\n", "\r": "\\r" })[char] ?? `\\x${char.charCodeAt().toString(16).padStart(2, "0")}`;
  const inside = text.replaceAll("\\", "\\").replaceAll(quote, `\\${quote}`);
  return quote + inside.replace(/[\0-\x1f\x7f-\xa0\xad]/g, code) + quote;
};
const printable = (chars) => chars.map((char) => (/^[ -~]$/.test(char) ? char : "?")).join("");
const bitsOf = (value) => (value < 0n ? -value : value).toString(2).length;
const list = (value) => (Array.isArray(value) ? `[${value.map(list).join(", ")}]` : `${value}`);
const short = (value) => {
  if (typeof value === "bigint" && bitsOf(value) > 128) return `an integer of ${bitsOf(value)} bits`;
  const text = typeof value === "string" ? quoted(value) : list(value);
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
};
// What was typed cannot be read: the message of Python's error, without the hint.
class Refusal extends Error {
  constructor(what, where, why) {
    super([what, where && `  where: ${where}`, why && `  why: ${why}`].filter(Boolean).join("\n"));
  }
}
const badTag = (chars, at, why) => {
  const first = chars.length > 60 ? Math.max(0, at - 30) : 0;
  const excerpt = printable(chars.slice(first, first + 60));
  const more = chars.length > 60 ? ` of ${chars.length} characters` : "", caret = " ".repeat(9 + at - first) + "^";
  return new Refusal(`bad format tag ${quoted(excerpt)}${more}`, `${excerpt}\n${caret}`, why);
};

// --- tags ---
const REST = -1, isDigit = (char) => char >= "0" && char <= "9";
// The outer letters, and the inner blocks {letter, size, at, step}.
const scan = (chars) => {
  const found = chars.findIndex(isDigit), split = found < 0 ? chars.length : found;
  chars.forEach((char, i) => {
    if (!/^[0-9A-Za-z]$/.test(char) && (char !== "@" || i < split))
      throw badTag(chars, i, "a tag consists of letters, block sizes and steps");
  });
  if (!split) throw badTag(chars, 0, chars.length ? "a tag starts with the letters of its axes" : "the tag is empty");
  const blocks = [];
  let at = split;
  for (let i = split; i < chars.length; i++) {
    if (isDigit(chars[i]) || chars[i] === "@") continue;
    if (i === at)
      throw badTag(chars, i, "an outer letter cannot follow a block; every block is a size and then a letter");
    const [, size, , step] = /^(\d+)(@(\d+))?$/.exec(chars.slice(at, i).join("")) ?? [];
    if (!size) throw badTag(chars, at, "a block is a size, optionally @ and a step, and then a letter: 32@1b");
    blocks.push({ letter: chars[i].toLowerCase(), size: BigInt(size), at: i, step: step && BigInt(step) });
    at = i + 1;
  }
  if (at < chars.length)
    throw badTag(chars, chars.length, `block size ${chars.slice(at, at + 12).join("")} lacks its axis letter`);
  return { outer: chars.slice(0, split), blocks };
};
// The axis of each outer letter, of `chars` as typed.
const axesOf = (outer, chars) => {
  const letters = outer.map((letter) => letter.toLowerCase()), all = [...tables.letters];
  letters.forEach((letter, i) => {
    if (letters.indexOf(letter) < i) throw badTag(chars, i, `axis '${letter}' appears twice`);
  });
  if (letters.join("") === "x") return new Map([["x", 0]]);
  if (!letters.includes("a")) {
    const same = (order) => order.length === letters.length && letters.every((letter) => order.includes(letter));
    const order = tables.domains.find(same);
    if (order) return new Map([...order].map((letter, i) => [letter, i]));
    const found = letters.findIndex((letter) => !tables.aliasLetters.includes(letter)), at = Math.max(0, found);
    throw badTag(chars, at, found < 0
      ? `the letters '${letters.join("")}' do not name a known set of axes` : `'${letters[at]}' is not an axis letter`);
  }
  const named = letters.filter((letter) => letter !== "x");
  letters.forEach((letter, i) => {
    if (letter === "x") return;
    if (!all.includes(letter))
      throw badTag(chars, i, `'${letter}' is not an axis letter of a base tag: those are a..${all.at(-1)}`);
    if (all.indexOf(letter) >= named.length)
      throw badTag(chars, i, `axis '${letter}' is named but axis '${all.find((c) => !named.includes(c))}' is not`);
  });
  return new Map(letters.map((letter) => [letter, letter === "x" ? REST : all.indexOf(letter)]));
};
const checkBlocks = ({ outer, blocks }, chars, axes) => {
  for (const { letter, size, at } of blocks) {
    if ((axes.get(letter) ?? REST) === REST)
      throw badTag(chars, at, `the block's axis '${letter}' is not among the outer letters`);
    if (size < 1n || size >= 2n ** 31n) throw badTag(chars, at, `block size ${size} is outside 1..2**31 - 1`);
  }
  if (blocks.length > tables.mostBlocks)
    throw badTag(chars, blocks[tables.mostBlocks].at, `more than ${tables.mostBlocks} inner blocks`);
  const upper = (letter) => letter !== letter.toLowerCase();
  if (!blocks.length && outer.every(upper) && outer.length > 1) return;
  outer.forEach((letter, i) => {
    const low = letter.toLowerCase();
    if (upper(letter) && !blocks.some((block) => block.letter === low))
      throw badTag(chars, i, `'${letter}' marks a blocked axis, but no block of '${low}' follows`);
  });
};
// The steps of blocks that have none of their own: the product of the blocks of the same axis inside.
const usualSteps = (blocks) =>
  blocks.map(({ axis }, i) => productOf(blocks.slice(i + 1).filter((other) => other.axis === axis).map((b) => b.size)));
const clash = (blocks) => {
  for (const axis of [...new Set(blocks.map((block) => block.axis))].sort((a, b) => a - b)) {
    let reached = 1n;
    const own = blocks.filter((block) => block.axis === axis && block.size > 1n);
    const order = (a, b) => (a.step === b.step ? Number(a.size - b.size) : a.step < b.step ? -1 : 1);
    for (const { step, size } of own.sort(order)) {
      if (step !== reached)
        return `the steps of axis '${tables.letters[axis]}' ${step < reached ? "overlap" : "leave a gap"}: ` +
          `a block has step ${step} where ${reached} is expected`;
      reached *= size;
    }
  }
  return "";
};
// Blocks of 1 are dropped; of others than oneDNN's, one that continues the one outside it is one with that.
const canonical = (blocks) => {
  const kept = blocks.filter((block) => block.size > 1n).map((block) => ({ ...block }));
  if (usualSteps(kept).every((step, i) => step === kept[i].step)) return kept;
  return kept.reduce((found, block) => {
    const last = found.at(-1);
    if (last && last.axis === block.axis && last.step === block.step * block.size)
      block.size *= found.pop().size;
    return [...found, block];
  }, []);
};
const tagText = (order, blocks) => {
  const usual = usualSteps(blocks), letter = (axis) => (axis === REST ? "x" : tables.letters[axis]);
  const isBlocked = (axis) => blocks.some((block) => block.axis === axis);
  const outer = order.map((axis) => (isBlocked(axis) ? letter(axis).toUpperCase() : letter(axis)));
  const step = (block, i) => (block.step === usual[i] ? "" : `@${block.step}`);
  return outer.join("") + blocks.map((block, i) => `${block.size}${step(block, i)}${letter(block.axis)}`).join("");
};
// A tag as {order, blocks, names}; `x` is REST in its order.
const parseTag = (text) => {
  const chars = [...text];
  if (chars.length > 192) throw badTag(chars, 192, `a tag has at most 192 characters; this one has ${chars.length}`);
  if (text === "any" || text === "undef")
    throw new Refusal(`format ${quoted(text)} does not determine the layout`, "", "it is a placeholder");
  const meant = Object.hasOwn(tables.meanings, text) ? tables.meanings[text] : text;
  const parts = scan([...meant]), axes = axesOf(parts.outer, chars);
  checkBlocks(parts, chars, axes);
  const blocks = parts.blocks.map((block) => ({ ...block, axis: axes.get(block.letter) }));
  const usual = usualSteps(blocks);
  blocks.forEach((block, i) => { block.step ??= usual[i]; });
  const written = parts.blocks.find((block) => block.step !== undefined);
  const why = written ? clash(blocks) : "";
  if (why) throw badTag(chars, written.at, why);
  const order = parts.outer.map((letter) => axes.get(letter.toLowerCase()));
  const letters = [...axes.entries()].sort((a, b) => a[1] - b[1]).map(([letter]) => letter);
  return { order, blocks: canonical(blocks), letters: letters.includes("x") || meant !== text ? null : letters };
};
const resolved = ({ order, blocks }, dims) => {
  const ndims = dims.length;
  if (!order.includes(REST)) return order;
  if (blocks.some((block) => block.axis >= ndims))
    throw new Refusal(`format tag '${tagText(order, blocks)}' cannot have rank ${ndims}`, `dims ${tuple(dims)}`,
      `ranks are 1..${tables.letters.length}, and every blocked axis must exist`);
  const rest = Array.from({ length: ndims }, (_, i) => i).filter((axis) => !order.includes(axis));
  return order.flatMap((axis) => (axis === REST ? rest : axis < ndims ? [axis] : []));
};
const parseDims = (text) => {
  if (text.length > 300) throw new Refusal(`dims of ${text.length} characters`, "", "the limit is 300");
  let at = 0;
  const dims = text.split("x").map((part) => {
    if (!/^[0-9]+$/.test(part)) {
      const shown = printable([...text]), place = at + Math.max(0, [...part].findIndex((char) => !isDigit(char)));
      throw new Refusal(`bad dims ${quoted(shown)}`, `${shown}\n${" ".repeat(9 + place)}^`,
        part ? "a dim must be a whole number of 0 or more" : "a dim is missing");
    }
    at += part.length + 1;
    return BigInt(part);
  });
  if (dims.length > tables.letters.length)
    throw new Refusal(`dims has ${dims.length} axes`, "", `a tensor has at most ${tables.letters.length} axes`);
  dims.forEach((n, i) => {
    if (n >= 2n ** 63n)
      throw new Refusal(`dims[${i}] is ${short(n)}`, `dims (${dims.map(short).join(", ")})`, "a dim must be below 2**63");
  });
  return dims;
};

// --- layouts: {dims, padded, strides, blocks, digits, offset, bits, ...} ---
// A digit is {axis, extent, weight, stride}: index[axis] = Σ digit * weight, offset = offset + Σ digit * stride.
const blocked = (dims, type, order, blocks, unit = productOf(blocks.map((block) => block.size)), offset = 0n) => {
  const whole = dims.map((_, d) => productOf(blocks.filter((block) => block.axis === d).map((block) => block.size)));
  const extents = dims.map((n, d) => (n + whole[d] - 1n) / whole[d]);
  const padded = extents.map((n, d) => n * whole[d]), strides = dims.map(() => 0n), bits = BigInt(tables.types[type]);
  let stride = unit;
  for (const d of [...order].reverse()) {
    strides[d] = stride;
    stride *= biggest(1n, extents[d]);
  }
  const digits = dims.map((_, d) => ({ axis: d, extent: extents[d], weight: whole[d], stride: strides[d] }));
  blocks.forEach(({ axis, size, step }, i) =>
    digits.push({ axis, extent: size, weight: step, stride: productOf(blocks.slice(i + 1).map((block) => block.size)) }));
  const isEmpty = dims.includes(0n), counts = extents.map((n, d) => (n === 1n ? 1n : n * strides[d]));
  const high = isEmpty ? 0n : 1n + digits.reduce((sum, digit) => sum + (digit.extent - 1n) * digit.stride, 0n);
  const size = isEmpty ? 0n : biggest(...counts, high, productOf(blocks.map((block) => block.size)));
  const nbytes = (biggest(high, size, ...strides) * bits + 7n) / 8n;
  if (nbytes >= 2n ** 63n) {
    const where = `${type} dims ${tuple(dims)} strides ${tuple(strides)}`;
    throw new Refusal(`the tensor needs ${nbytes < 1n << 100n ? nbytes : `over 2**${bitsOf(nbytes) - 1}`} bytes`,
      where.length > 200 ? `${where.slice(0, 200)}...` : where, "sizes, padding included, must be below 2**63 bytes");
  }
  return { dims, padded, strides, blocks, digits, offset, bits, type, size };
};
const tagLayout = (text, dims, type) => {
  const tag = parseTag(text);
  if (!dims) throw new Refusal("DIMS is missing", "", "a tag has no extents");
  const order = resolved(tag, dims);
  if (order.length !== dims.length)
    throw new Refusal(`format tag '${text}' has ${order.length} axes, the dims have ${dims.length}`,
      `dims ${tuple(dims)}; tag ${tagText(order, tag.blocks)}`, "a tag orders each axis once");
  const names = tag.letters ?? [...tables.letters].slice(0, dims.length);
  const base = tagText(order, tag.blocks);
  return { ...blocked(dims, type, order, tag.blocks), names, title: base === text ? base : `${text} = ${base}` };
};
const storedLayout = (text, dims) => {
  const format = tables.formats[text], shape = dims ?? format.dims.map(BigInt), { multiples } = format;
  const last = shape.length - multiples.length, shown = `formats.${text}: the shape is ${tuple(shape)}`;
  if (!format.unit)
    throw new Refusal(`formats.${text}: its elements are not drawn here`, "",
      `they are spread over bits; restride show ${text} --svg FILE draws them`);
  if (format.isMatrix ? last : last < 0) throw new Refusal(shown, "", "only matrices have this format");
  if (multiples.some((n, i) => shape[last + i] % BigInt(n)))
    throw new Refusal(shown, "", `its last dims are multiples of ${multiples.join(" and ")}`);
  const blocks = format.blocks.map(([size, axis, step]) => ({ size: BigInt(size), axis: last + axis, step: BigInt(step) }));
  const order = [...shape.keys()], names = [...tables.letters].slice(0, shape.length);
  const made = blocked(shape, format.type, order, blocks, BigInt(format.unit), BigInt(format.offset));
  return { ...made, names, title: `${text}: values` };
};

// --- CuTe's layouts ---
const nested = (value, name, least, levels = 16) => {
  const refused = new Refusal(`Layout: ${name} is ${short(value)}`, "", "it has too many numbers or levels: at most 64 in 16");
  if (Array.isArray(value)) {
    if (!levels || value.length > 64) throw refused;
    const parts = value.map((part) => nested(part, name, least, levels - 1));
    if (levels === 16 && parts.flat(Infinity).length > 64) throw refused;
    return parts;
  }
  if (value < least || value >= 2n ** 63n)
    throw new Refusal(`${name} contains the number ${short(value)}`, "", `numbers must be ${least} or more, and fit 64 bits`);
  return value;
};
const text = (value) => (Array.isArray(value) ? `(${value.map(text).join(",")})` : `${value}`);
const intTuple = (part) => {
  const json = part.replace(/\b_(?=-?\d)/g, "").replace(/,\s*\)/g, ")").replaceAll("(", "[").replaceAll(")", "]");
  if (/(^|[^\d])0\d/.test(json)) throw new SyntaxError();
  return JSON.parse(json.replace(/-?\d+/g, '"$&"'), (_, value) => (typeof value === "string" ? BigInt(value) : value));
};
const cuteLayout = (typed, dims, type) => {
  const parts = typed.split(":");
  let values;
  try {
    if (typed.length > 4096 || parts.length > 2 || !/^[\d\s(),:_-]*$/.test(typed)) throw new SyntaxError();
    values = parts.map(intTuple);
  } catch {
    throw new Refusal(`Layout: ${short(typed)} cannot be read`, "", "it does not have the form shape:stride, with nested parentheses");
  }
  const shape = nested(values[0], "shape", 1n);
  let step = 1n;
  const dense = (part) => (Array.isArray(part) ? part.map(dense) : ((step *= part), step / part));
  const stride = nested(values.length > 1 ? values[1] : dense(shape), "stride", -(2n ** 63n));
  if (text(shape).replace(/\d+/g, "") !== text(stride).replace(/-?\d+/g, ""))
    throw new Refusal("Layout: shape and stride are nested differently", `shape ${text(shape)}, stride ${text(stride)}`,
      "each extent has one stride");
  const modes = Array.isArray(shape) && shape.length ? shape.map((n, d) => [[n].flat(Infinity), [stride[d]].flat(Infinity)])
    : [[[shape].flat(Infinity), [stride].flat(Infinity)]];
  const digits = [], sizes = modes.map(([extents, strides], axis) => extents.reduce((weight, extent, i) => {
    digits.push({ axis, extent, weight, stride: strides[i] });
    return weight * extent;
  }, 1n));
  if (dims && `${dims}` !== `${sizes}`)
    throw new Refusal(`dims ${dims.join("x")} with a layout of ${sizes.join("x")}`, "", "its modes have sizes of their own");
  const reach = digits.map((digit) => (digit.extent - 1n) * digit.stride);
  const ends = (sign) => reach.filter((far) => far * sign > 0n).reduce((sum, far) => sum + far, 0n);
  const names = sizes.map((_, d) => `${d}`), title = `${text(shape)}:${text(stride)}`;
  return { dims: sizes, padded: sizes, digits, offset: 0n, bits: BigInt(tables.types[type]), type, names, title,
    size: 1n + ends(1n) - ends(-1n), isColumnMajor: true };
};
// A layout with swizzled offsets, Sw<bits,base,shift> o 0 o SHAPE:STRIDE.
const swizzled = ({ swizzle }, offset) => {
  if (!swizzle) return offset;
  const { bits, source, target } = swizzle;
  return offset ^ (((offset >> source) & ((1n << bits) - 1n)) << target);
};
const SWIZZLED = /^[ \t-\r]*Sw<(\d{1,2}),(\d{1,2}),(-?\d{1,2})>[ \t-\r]*o[ \t-\r]*0[ \t-\r]*o[ \t-\r]*([^<>]{1,4096})$/u;
const swizzledLayout = (typed, dims, type) => {
  const found = SWIZZLED.exec(typed);
  if (!found)
    throw new Refusal(`${short(typed)} is not a swizzled layout`, "", "one is written Sw<bits,base,shift> o 0 o SHAPE:STRIDE");
  const [bits, base, shift] = found.slice(1, 4).map(BigInt), far = shift < 0n ? -shift : shift, most = 62n;
  if (far < bits || bits + base + far > most)
    throw new Refusal(`Swizzle: ${tuple([bits, base, shift])} is not a swizzle`, "",
      `bits and base must be 0 or more, the magnitude of shift at least bits, and all at most ${most} bits`);
  const layout = cuteLayout(found[4], dims, type), outer = `Sw<${bits},${base},${shift}>`;
  const reach = layout.digits.map(({ extent, stride }) => (extent - 1n) * stride);
  const cosize = reach.reduce((sum, far) => sum + (far < 0n ? -far : far), 1n);
  if (reach.some((far) => far < 0n) || cosize > 1n << most)
    throw new Refusal("compose: the second layout leaves the domain of the first",
      `${outer} of size ${1n << most}, ${layout.title} with offsets up to ${cosize} - 1`, "the first has no offset there");
  const [source, target] = shift > 0n ? [base + far, base] : [base, base + far];
  const written = ((1n << bits) - 1n) << target, size = 1n + ((cosize - 1n) | written);
  return { ...layout, title: `${outer} o 0 o ${layout.title}`, swizzle: { bits, source, target }, size };
};

const isCute = (typed) => /^([\s(\d]|Sw<)/.test(typed);
const layoutOf = (typed, dims, type) =>
  Object.hasOwn(tables.formats, typed) ? storedLayout(typed, dims)
    : !isCute(typed) ? tagLayout(typed, dims, type)
      : typed.includes("<") ? swizzledLayout(typed, dims, type) : cuteLayout(typed, dims, type);
const offsetOf = (layout, index) => swizzled(layout, layout.digits.reduce(
  (sum, { axis, extent, weight, stride }) => sum + ((index[axis] / weight) % extent) * stride, layout.offset));
// A layout as CuTe writes it, padding included.
const cuteText = ({ dims, digits }) => {
  const modes = dims.map((_, d) => {
    const own = digits.filter((digit) => digit.axis === d && digit.extent !== 1n);
    own.sort((a, b) => (a.weight < b.weight ? -1 : 1));
    const [shape, stride] = ["extent", "stride"].map((name) => own.map((digit) => digit[name]));
    return own.length === 1 ? [shape[0], stride[0]] : own.length ? [shape, stride] : [1n, 0n];
  });
  return `${text(modes.map(([shape]) => shape))}:${text(modes.map(([, stride]) => stride))}`;
};
