const get = (id) => document.getElementById(id);
const drawn = JSON.parse(get("drawn").textContent);
const names = [...drawn.names];
const panes = drawn.panes.map((pane) => new Pane(pane, names, drawn.palette));
const memories = panes.filter((pane) => pane.bits !== null);
get("panes").append(...panes.map((pane) => pane.section));
get("panes").style.setProperty("--memories", memories.length);

const place = (position) => position.map((i, d) => `${names[d]}=${i}`).join(" ");
const at = (pane, offset) => `   ${pane.label}: element ${offset}, byte ${pane.byte(offset)}`;
const KINDS = { padding: "padding ", beyond: "not of this submemory " };

let marked = [], current = null;
// Marks a position everywhere, or where its kind is not an element in its own pane alone. The pane that is
// pointed at, `still`, is not scrolled.
const mark = (position, pane, kind, offset, still = null) => {
  current = { position, pane, kind, offset };
  marked.forEach((other) => other.classList.remove("here"));
  const shown = kind === "element" ? panes : [pane];
  marked = shown.map((one) => one.find(position)).filter(Boolean);
  marked.forEach((cell) => cell.classList.add("here"));
  shown.forEach((one) => { const cell = one.find(position); if (cell && one !== still) one.show(cell); });
  const offsets = kind === "element" ? memories.map((one) => at(one, one.layout.offsetOf(position))) : [at(pane, offset)];
  get("where").textContent = `${KINDS[kind] ?? ""}(${place(position)})${offsets.join("")}`;
};

if (panes.length) {
  const slider = get("step"), choice = get("side"), play = get("play"), speed = get("speed");
  memories.forEach((pane, i) => choice.add(new Option(pane.label, i)));
  choice.parentElement.hidden = memories.length < 2;
  const memory = () => memories[Number(choice.value)];
  // A slider's numbers are exact up to here.
  const last = () => Number(memory().layout.places - 1n > 2n ** 53n ? 2n ** 53n : memory().layout.places - 1n);

  // Shades what the walk through memory has passed, in all panes.
  const shade = () => {
    const passed = BigInt(slider.value), { layout } = memory();
    const is = (cell) => (cell.kind === "element" || cell.pane === memory()) && layout.rank(cell.position) < passed;
    panes.forEach((pane) => pane.cells.forEach((cell) => cell.classList.toggle("passed", is(cell))));
  };
  const go = (to) => {
    slider.value = Math.max(0, Math.min(last(), to));
    const pane = memory(), { offset, position } = pane.layout.nth(BigInt(slider.value));
    pane.reveal(position);
    shade();
    mark(position, pane, pane.layout.kind(position), offset);
  };
  const restart = () => { slider.max = last(); slider.value = 0; };
  panes.forEach((pane) => {
    pane.onrender = () => { shade(); if (current) mark(current.position, current.pane, current.kind, current.offset, pane); };
  });

  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "play"; };
  const tick = () => { go(Number(slider.value) + 1); if (Number(slider.value) >= last()) stop(); };
  const start = () => {
    if (Number(slider.value) >= last()) slider.value = 0;
    play.textContent = "stop";
    timer = setInterval(tick, Number(speed.value));
  };
  const by = (steps) => { stop(); go(Number(slider.value) + steps); };
  // The next place that is drawn on another line of the picture.
  const line = (step) => {
    const pane = memory(), key = (n) => pane.layout.locate(pane.layout.nth(BigInt(n)).position).slice(0, 2).join();
    let to = Number(slider.value);
    const here = key(to);
    for (let i = 0; i < 4096 && to + step >= 0 && to + step <= last(); i++) {
      to += step;
      if (key(to) !== here) break;
    }
    by(to - Number(slider.value));
  };

  document.addEventListener("mouseover", (event) => {
    const cell = event.target.closest?.("td[data-i]");
    if (cell && !timer) mark(cell.position, cell.pane, cell.kind, cell.offset, cell.pane);
  });
  // A click also opens the places that are left out of other panes, and the walk goes on from here.
  document.addEventListener("click", (event) => {
    const cell = event.target.closest?.("td[data-i]");
    if (!cell) return;
    stop();
    if (cell.kind === "element") panes.filter((pane) => pane !== cell.pane).forEach((pane) => pane.reveal(cell.position));
    if (cell.kind === "element" || cell.pane === memory()) slider.value = Number(memory().layout.rank(cell.position));
    shade();
    mark(cell.position, cell.pane, cell.kind, cell.offset, cell.pane);
  });
  get("back").onclick = () => by(-1);
  get("next").onclick = () => by(1);
  play.onclick = () => (timer ? stop() : start());
  slider.oninput = () => { stop(); go(Number(slider.value)); };
  choice.onchange = () => { stop(); restart(); go(0); };
  speed.onchange = () => { if (timer) { stop(); start(); } };
  const KEYS = {
    ArrowRight: () => by(1), ArrowLeft: () => by(-1), ArrowDown: () => line(1), ArrowUp: () => line(-1),
    Home: () => by(-Infinity), End: () => by(Infinity), " ": () => play.onclick(),
  };
  document.addEventListener("keydown", (event) => {
    const key = KEYS[event.key], taken = event.target.closest?.("input, select, summary");
    if (!key || taken || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === " " && event.target.closest?.("button")) return;
    key();
    event.preventDefault();
  });
  restart();
}
