/* <game-replay>: a recorded game to scrub through. Draws scenes and frames of any game: known kinds have a picture,
   others a labelled tile. Data: see potluck_audit/report/replay_data.py. No request ever leaves the page.
   Any element with data-episode and data-step, when clicked, opens that episode at that step. */
(() => {
"use strict";
const CELL = 40;
const BASE_MS = 220;
const WIDE = 16;  // from here on cells are small: agents are drawn larger, and the board gets more of the page
const AGENTS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a00", "#6b6b6b"];
const esc = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
const agentColour = (seat) => AGENTS[((seat % AGENTS.length) + AGENTS.length) % AGENTS.length];
const hue = (text) => [...text].reduce((h, c) => (h * 31 + c.charCodeAt(0)) % 360, 7);

/* ---- things that are held or lie about, drawn around (0,0) in a box of 40 ---- */
const food = {
  onion: `<path d="M0-9C2-6 8-4 8 2C8 7 4 9 0 9C-4 9-8 7-8 2C-8-4-2-6 0-9Z" fill="#e9c46a" stroke="#8d6b1f" stroke-width="1.2"/><path d="M-3 8C-5 3-4-2 0-8M3 8C5 3 4-2 0-8" fill="none" stroke="#b98a2b" stroke-width=".9"/>`,
  tomato: `<circle cy="1" r="8" fill="#d1495b" stroke="#7d1f2d" stroke-width="1.2"/><path d="M-4-6L0-4L4-6L1-9L-1-9Z" fill="#3c7a3f"/>`,
  dish: `<circle r="9" fill="#fff" stroke="#7c8794" stroke-width="1.2"/><circle r="5.4" fill="none" stroke="#b8c0ca" stroke-width="1.1"/>`,
  soup: `<circle r="9.5" fill="#fff" stroke="#7c8794" stroke-width="1.2"/><circle r="6.6" fill="#e08e2b" stroke="#9b5b12" stroke-width=".9"/><circle cx="-2" cy="-1" r="1.3" fill="#ffd98a"/><circle cx="2.4" cy="1.6" r="1.3" fill="#ffd98a"/>`,
  apple: `<circle cy="1" r="7.5" fill="#c0392b" stroke="#6e1d15" stroke-width="1.2"/><path d="M0-6Q2-10 5-10" fill="none" stroke="#4a7a35" stroke-width="1.8"/>`,
};
food.dirt = `<path d="M-16 5Q-9-9 0-2T16-5V12H-16Z" fill="#7a5c3e" stroke="#4e3a26" stroke-width="1"/>`;
const BEAMS = { clean_beam: "#bde7ff", zap_beam: "#ffd54a" };
const beam = (kind) => `<rect x="3" y="3" width="34" height="34" rx="7" fill="${BEAMS[kind] ?? "#ddd"}" opacity=".72" stroke="#0004"/>`;
const pile = (one) => [[-7, 5], [7, 5], [0, -5]].map(([x, y]) => `<g transform="translate(${x} ${y}) scale(.8)">${food[one]}</g>`).join("");
const mark = (kind, colour) => `<circle r="9" fill="${colour}" stroke="#0006"/><text y="3.6" text-anchor="middle" class="tag">${esc(kind.slice(0, 2))}</text>`;
function thing(kind) {
  const known = Object.keys(food).find((name) => kind === name || kind.startsWith(name + "_") || kind.startsWith(name + "#"));
  return known ? food[known] : mark(kind, `hsl(${hue(kind)} 55% 70%)`);
}

/* ---- tiles, drawn in a box of 40 with the corner at (0,0) ---- */
const block = (top, side) => `<rect width="40" height="40" fill="${side}"/><rect x="1.5" y="1.5" width="37" height="33" rx="3" fill="${top}"/>`;
const counter = block("#c9a06a", "#9a733f");
const plain = (fill) => `<rect width="40" height="40" fill="${fill}"/>`;
const tiles = {
  floor: (x, y) => plain((x + y) % 2 ? "#efe6d2" : "#f6efdf"),
  counter: () => counter,
  pot: () => counter + `<rect x="5" y="5" width="30" height="26" rx="4" fill="#5c6670"/><circle cx="20" cy="18" r="11" fill="#2f363d"/>`,
  onions: () => counter + `<g transform="translate(20 18)">${pile("onion")}</g>`,
  tomatoes: () => counter + `<g transform="translate(20 18)">${pile("tomato")}</g>`,
  dishes: () => counter + `<g transform="translate(20 18)"><g transform="translate(0 4)">${food.dish}</g><g transform="translate(0 0)">${food.dish}</g><g transform="translate(0 -4)">${food.dish}</g></g>`,
  window: () => block("#cfd8dc", "#78909c") + `<path d="M9 12H31M9 18H31M9 24H31" stroke="#546e7a" stroke-width="1.4" stroke-dasharray="3 2"/><path d="M15 20l4 4l8-9" fill="none" stroke="#2e7d32" stroke-width="3.4" stroke-linecap="round"/>`,
  wall: () => block("#8d8d8d", "#6b6b6b"),
  grass: (x, y) => plain((x + y) % 2 ? "#b8d8a0" : "#c1dfaa"),
  sand: (x, y) => plain((x + y) % 2 ? "#eadfb8" : "#efe5c3"),
  river: () => plain("#8fc1e3"), water: () => plain("#8fc1e3"),
  dirt: () => plain("#8fc1e3") + `<path d="M6 22Q12 12 20 20T36 18V32H6Z" fill="#7a5c3e"/>`,
  empty: () => plain("#f4f4f4"),
};
function tile(kind, x, y) {
  const draw = tiles[kind];
  if (draw) return draw(x, y);
  return `<rect width="40" height="40" fill="hsl(${hue(kind)} 30% 82%)" stroke="#0002"/><text x="20" y="23" text-anchor="middle" class="tag">${esc(kind.slice(0, 6))}</text>`;
}

/* ---- moving things ---- */
const TURN = { N: 0, E: 90, S: 180, W: 270 };
const AHEAD = { N: [0, -14], E: [14, 0], S: [0, 14], W: [-14, 0] };
function chef(s) {
  const turn = TURN[s.facing] ?? 180, [hx, hy] = AHEAD[s.facing] ?? [0, 12], colour = agentColour(s.seat);
  const held = s.held ? `<g class="held" transform="translate(${20 + hx} ${20 + hy}) scale(.8)">${thing(s.held)}</g>` : "";
  return `<g transform="translate(20 20)"><g transform="rotate(${turn})"><circle cx="-9" cy="-9" r="4" fill="#f0c8a0" stroke="#0005"/><circle cx="9" cy="-9" r="4" fill="#f0c8a0" stroke="#0005"/><path class="nose" d="M-6-12L0-19L6-12Z" fill="${colour}"/></g>` +
    `<circle class="shell" r="13.5" fill="${colour}" stroke="#fff" stroke-width="1.6"/><circle class="disc" r="8.6" fill="#fff" stroke="#0003"/><text y="4.2" text-anchor="middle" class="seat">${s.seat}</text></g>${held}`;
}
function pot(s) {
  const label = s.label || "", fill = label.match(/^(\d+)\s*\/\s*(\d+)$/), cooking = label.match(/^(\d+)/);
  let inside = "";
  if (fill) for (let i = 0; i < +fill[1]; i++) inside += `<g transform="translate(${[20, 14.5, 25.5][i % 3]} ${[13, 21, 21][i % 3]}) scale(.55)">${food.onion}</g>`;
  else if (label) inside = `<circle cx="20" cy="18" r="9" fill="#e08e2b" stroke="#9b5b12"/>`;
  const ready = label && !fill && !cooking;
  const steam = ready ? `<path d="M13 8q3-4 0-8M20 7q3-4 0-8M27 8q3-4 0-8" fill="none" stroke="#fff" stroke-width="1.8" opacity=".9"/>` : "";
  const note = label ? `<g transform="translate(20 33)"><rect x="-16" y="-6.5" width="32" height="13" rx="6.5" fill="${ready ? "#2e7d32" : "#263238"}"/><text y="3.4" text-anchor="middle" class="potlabel">${esc(label)}</text></g>` : "";
  return inside + steam + note;
}
function sprite(s) {
  const body = s.seat >= 0 ? chef(s) : s.kind === "pot" ? pot(s)
    : s.kind.endsWith("_beam") ? beam(s.kind)
    : `<g transform="translate(20 18)">${thing(s.kind)}</g>` + (s.label ? `<text x="20" y="37" text-anchor="middle" class="tag">${esc(s.label)}</text>` : "");
  const who = s.seat >= 0 ? ` data-seat="${s.seat}"` : "";
  return `<g class="sprite" data-kind="${esc(s.kind)}"${who} transform="translate(${s.x * CELL} ${s.y * CELL})">${body}</g>`;
}
const unpack = ([kind, x, y, facing, seat, held, label]) => ({ kind, x, y, facing, seat, held, label });

class GameReplay extends HTMLElement {
  connectedCallback() {
    if (this.data) return;
    const source = document.getElementById(this.getAttribute("source"));
    this.data = JSON.parse(source.textContent);
    this.build();
    this.open(0);
  }
  disconnectedCallback() { this.pause(); }

  build() {
    const picks = this.data.episodes.map((e, i) => `<option value="${i}">${esc(e.title)}</option>`).join("");
    this.innerHTML = `<div class="replay" tabindex="0" aria-label="Game replay. Left and right arrows step, space plays.">
      <div class="stage">
        <div class="bar"><label>Episode <select class="episode">${picks}</select></label></div>
        <div class="bar"><output class="step"></output><span class="score"></span></div>
        <svg class="board" role="img" aria-label="The game board"><g class="floor"></g><g class="moving"></g></svg>
        <svg class="timeline" preserveAspectRatio="none" aria-hidden="true"><g class="marks"></g><line class="cursor"></line></svg>
        <input class="frame" type="range" min="0" value="0" step="1" aria-label="Step">
        <div class="bar controls">
          <button type="button" class="play" aria-pressed="false">▶ Play</button>
          <button type="button" class="back" title="One step back (←)">‹ Step</button>
          <button type="button" class="next" title="One step on (→)">Step ›</button>
          <button type="button" class="reward" title="Next reward (.)">Next reward »</button>
          <button type="button" class="earlier" title="Decision before ([)">‹ Decision</button>
          <button type="button" class="later" title="Next decision (])">Decision ›</button>
          <label>of <select class="who" aria-label="Whose decisions"></select></label>
          <label>Speed <select class="speed"><option value="1">1×</option><option value="2" selected>2×</option><option value="4">4×</option><option value="8">8×</option></select></label>
        </div>
        <p class="hint">Keys: <kbd>←</kbd> <kbd>→</kbd> one step, <kbd>Shift</kbd> with them ten, <kbd>Home</kbd> <kbd>End</kbd>, <kbd>Space</kbd> plays, <kbd>.</kbd> next reward, <kbd>[</kbd> <kbd>]</kbd> decisions.</p>
      </div>
      <div class="side"><div class="minds" tabindex="0" aria-label="Menus"></div></div></div>`;
    const find = (name) => this.querySelector(name);
    this.marks = find(".marks"); this.cursor = find(".cursor"); this.who = find(".who");
    this.board = find(".board"); this.slider = find(".frame"); this.minds = find(".minds");
    this.slider.addEventListener("input", () => { this.pause(); this.show(+this.slider.value); });
    find(".episode").addEventListener("change", (e) => this.open(+e.target.value));
    find(".play").addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    find(".back").addEventListener("click", () => this.step(-1));
    find(".next").addEventListener("click", () => this.step(1));
    find(".earlier").addEventListener("click", () => this.decide(-1));
    find(".later").addEventListener("click", () => this.decide(1));
    this.marks.addEventListener("click", (e) => { const at = e.target.dataset.at; if (at) { this.pause(); this.show(+at); } });
    document.addEventListener("click", (e) => { const to = e.target.closest("[data-episode][data-step]"); if (to) this.jump(to.dataset.episode, +to.dataset.step); });
    find(".reward").addEventListener("click", () => this.jumpToReward());
    find(".speed").addEventListener("change", () => { if (this.timer) { this.pause(); this.play(); } });
    find(".replay").addEventListener("keydown", (e) => this.key(e));
  }

  key(e) {
    if (e.target.matches("select") || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === " " && e.target.matches("button")) return;
    const far = e.shiftKey ? 10 : 1;
    const act = { ArrowRight: () => this.step(far), ArrowLeft: () => this.step(-far), Home: () => this.step(-Infinity),
      End: () => this.step(Infinity), PageDown: () => this.step(10), PageUp: () => this.step(-10),
      " ": () => (this.timer ? this.pause() : this.play()), ".": () => this.jumpToReward(), "[": () => this.decide(-1), "]": () => this.decide(1) }[e.key];
    if (act) { e.preventDefault(); act(); }
  }

  open(index) {
    this.pause();
    const e = (this.episode = this.data.episodes[index]);
    this.querySelector(".episode").value = index;
    this.board.setAttribute("viewBox", `0 0 ${e.width * CELL} ${e.height * CELL}`);
    this.board.style.aspectRatio = `${e.width} / ${e.height}`;
    this.querySelector(".replay").classList.toggle("wide", e.width > WIDE);
    this.querySelector(".floor").innerHTML = e.tiles.map((kind, i) => {
      const x = i % e.width, y = Math.floor(i / e.width);
      return `<g transform="translate(${x * CELL} ${y * CELL})">${tile(e.kinds[kind], x, y)}</g>`;
    }).join("");
    this.rewards = e.frames.flatMap((f, i) => (i && f[1] > e.frames[i - 1][1] ? [i] : []));
    const seen = new Map();  // a decision is shown from the first frame on that knows of it
    e.frames.forEach((f, i) => f[3].forEach((a) => { if (a[2] >= 0 && !seen.has(a[2])) seen.set(a[2], i); }));
    this.decisions = e.menus.map((m, n) => ({ seat: m.seat, at: m.at, frame: seen.get(n) ?? 0 })).sort((a, b) => a.frame - b.frame || a.seat - b.seat);
    this.who.innerHTML = `<option value="-1">any agent</option>` + e.agents.map((a, seat) => `<option value="${seat}">${esc(a)}</option>`).join("");
    this.timeline();
    this.slider.max = e.frames.length - 1;
    this.show(0);
  }

  /* One row of ticks an agent, a tick a decision; the first row are rewards. */
  timeline() {
    const e = this.episode, last = Math.max(1, e.frames.length - 1), tall = 10 + 7 * e.agents.length, line = this.querySelector(".timeline");
    line.setAttribute("viewBox", `0 0 ${last} ${tall}`);
    line.style.height = `${tall}px`;
    this.cursor.setAttribute("y2", tall);
    const box = (kind, at, y, high, more) => `<rect class="${kind}" x="${at - last / 500}" y="${y}" width="${last / 250}" height="${high}" ${more}/>`;
    this.marks.innerHTML = this.rewards.map((i) => box("tick", i, 0, 8, "")).join("") +
      this.decisions.map((d) => box("decided", d.frame, 10 + 7 * d.seat, 5, `fill="${agentColour(d.seat)}" data-at="${d.frame}"`)).join("");
  }
  decide(by) {
    this.pause();
    const own = this.decisions.filter((d) => +this.who.value < 0 || d.seat === +this.who.value);
    const next = by > 0 ? own.find((d) => d.frame > this.at) : own.findLast((d) => d.frame < this.at);
    if (next) this.show(next.frame);
  }
  jump(id, step) {
    const index = this.data.episodes.findIndex((e) => e.id === id);
    if (index < 0) return;
    this.open(index);
    const decided = this.decisions.find((d) => d.at === step);
    this.show(decided ? decided.frame : Math.max(0, this.episode.frames.findIndex((f) => f[0] >= step)));
    this.scrollIntoView({ block: "start" });
    this.querySelector(".replay").focus({ preventScroll: true });
  }

  step(by) { this.pause(); this.show(this.at + by); }
  jumpToReward() { this.pause(); this.show(this.rewards.find((i) => i > this.at) ?? this.rewards[0] ?? this.at); }

  show(index) {
    const e = this.episode, last = e.frames.length - 1;
    this.at = Math.min(last, Math.max(0, index));
    const [step, gained, sprites, agents] = e.frames[this.at];
    const drawn = sprites.map(unpack).sort((a, b) => (a.seat >= 0) - (b.seat >= 0));
    this.querySelector(".moving").innerHTML = drawn.map(sprite).join("");
    this.board.dataset.step = step;
    this.slider.value = this.at;
    this.cursor.setAttribute("x1", this.at); this.cursor.setAttribute("x2", this.at);
    this.slider.setAttribute("aria-valuetext", `step ${step}`);
    this.querySelector(".step").value = `step ${step} / ${e.frames[last][0]}`;
    this.querySelector(".score").textContent = `${+gained.toFixed(2)} ${e.unit}`;
    const held = {};
    for (const s of drawn) if (s.seat >= 0) held[s.seat] = s.held;
    this.minds.innerHTML = agents.map((a, seat) => this.mind(e, seat, a, held[seat], step)).join("");
  }

  mind(e, seat, [option, target, index], held, step) {
    const menu = index >= 0 ? e.menus[index] : null, doing = option ? `${option}${target ? " → " + target : ""}` : "nothing";
    const head = `<h4><i style="background:${agentColour(seat)}">${seat}</i>${esc(e.agents[seat] ?? "seat " + seat)}<small>${esc(e.policies[seat] ?? "")}</small></h4>
      <p class="doing"><b>${esc(doing.replaceAll("_", " "))}</b>${held ? `, holding ${esc(held)}` : ""}</p>`;
    if (!menu) return `<section class="mind" data-seat="${seat}">${head}<p class="hint">${option ? "No menu: this seat is played by a baseline." : "No decision yet."}</p></section>`;
    const rows = menu.items.map(([letter, text, p]) => {
      const chosen = letter === menu.letter, share = p === null ? "" : `<span class="p"><i style="width:${(100 * p).toFixed(1)}%;background:${agentColour(seat)}"></i></span><span class="pc">${(100 * p).toFixed(0)} %</span>`;
      return `<li class="${chosen ? "chosen" : ""}${p === null ? " bare" : ""}"${chosen ? ' aria-current="true"' : ""}><b>${esc(letter)}</b><span class="t">${esc(text)}</span>${share}</li>`;
    }).join("");
    const age = step - menu.at;
    const took = menu.took === null ? "" : `, ${menu.took} step${menu.took === 1 ? "" : "s"}`;
    const came = menu.outcome ? `<p class="outcome">Outcome: ${esc(menu.outcome.replaceAll("_", " "))}${took}${menu.credit === null ? "" : `; credit <b>${menu.credit < 0 ? "−" : "+"}${Math.abs(menu.credit).toFixed(3)}</b> ${esc(e.unit)}`}</p>` : "";
    return `<section class="mind" data-seat="${seat}" data-decided="${menu.at}">${head}<p class="hint">Menu at step ${menu.at}${age ? `, ${age} step${age > 1 ? "s" : ""} ago` : ", now"}</p><ol>${rows}</ol>${came}</section>`;
  }

  play() {
    if (this.at >= this.episode.frames.length - 1) this.show(0);
    const tick = () => { if (this.at >= this.episode.frames.length - 1) this.pause(); else this.show(this.at + 1); };
    this.timer = setInterval(tick, BASE_MS / +this.querySelector(".speed").value);
    this.label("⏸ Pause", true);
  }
  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.label("▶ Play", false);
  }
  label(text, pressed) {
    const button = this.querySelector(".play");
    if (button) { button.textContent = text; button.setAttribute("aria-pressed", pressed); }
  }
}
customElements.define("game-replay", GameReplay);
})();
