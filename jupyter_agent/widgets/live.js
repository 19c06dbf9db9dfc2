/**
 * The live transcript: what a person watches while the agent works in a notebook cell.
 *
 * The kernel publishes an ordinary HTML output, `<div class="jupyter-agent-live-ID">`, and opens a
 * comm to this module. No widget view is displayed: `initialize` finds the output and draws into
 * it. The kernel sends its state and then patches; a front end that lost the thread asks again.
 * Everything in the state is untrusted: it reaches the page as text nodes only, never as markup.
 *
 * @typedef {"waiting"|"running"|"asking"|"done"|"failed"|"refused"|"interrupted"|"not_run"} CallState
 * @typedef {{title: string, added: number, removed: number, lines: string[]}} Diff
 *   Each line begins with its kind: "+", "-", " " for an unchanged one, "@" for a remark.
 * @typedef {{kind: "text"|"error"|"diff"|"image"|"notice"|"table", text?: string, mime?: string,
 *   data?: string, alt?: string, rows?: [string, number, number, boolean][][], head?: number,
 *   left?: number
 *   } & Partial<Diff>} Output
 * @typedef {{text: string, number: number, about: string, reasons: string[], diffs: Diff[],
 *   always: string, byPart: boolean, choices?: string[]}} Question
 *   `number` counts the questions of the call, of which a delegate may have many. `about` is what is
 *   asked about, in one line.
 *   `byPart`: each of the diffs may be accepted or rejected alone. `choices`: the agent wants an answer
 *   in words, one of these or another; without them it wants a yes or a no.
 * @typedef {{id: string, name: string, gist: string, state: CallState, note: string, came: string,
 *   seconds: number|null, language: "python"|"text", body: string, outputs: Output[],
 *   question: Question|null, delegate: Delegate|null}} Call
 * @typedef {{running: boolean, now: string, facts: string, notices: string[], steps: Step[]}} Delegate
 *   A conversation that the call is. Only its last step ever changes, or a new one comes.
 * @typedef {{number: number, thinking: string, text: string, said: string[], notices: string[],
 *   calls: Call[]}} Step
 * @typedef {{running: boolean, ending: string, task: string, model: string, notices: string[],
 *   in_sight: string[], step: number, max_steps: number, tokens: number, cost: string, elapsed: number,
 *   activity: string, plan: {text: string, state: "pending"|"in_progress"|"done"}[],
 *   unread: string[], wait: {text: string, line: string, left: number, call: string}|null,
 *   steps: Step[]}} State
 * @typedef {["set"|"append"|"push", (string|number)[], unknown]} Op
 * @typedef {{node: HTMLElement, sync: (item: any, ...more: any[]) => void}} Part
 */

const ASK_AGAIN_MS = 1000;
const FORCE_STOP_MS = 400;
const STOP_AGAIN_MS = 5000;
const ANSWER_AGAIN_MS = 10_000;
const CLAIM_AFTER_MS = 200;
const NEXT_QUESTION_MS = 600;
const UNFOLD_AFTER_S = 1;
const NEAR_END_PX = 24;
const COPIED_MS = 1500;
const JUST_LEFT_MS = 200;
const REDRAWN_MS = 100;
const HIGHLIGHT_LIMIT = 50_000;

// ---- values ---------------------------------------------------------------------------------

const str = (value) => (typeof value === "string" ? value : value == null ? "" : String(value));
const arr = (value) => (Array.isArray(value) ? value : []);
const obj = (value) => (value !== null && typeof value === "object" ? value : {});
const now = () => performance.now();

/**
 * Whether a person caused the event. A script on the page, such as one in a cell's output, can click
 * a button or press a key, but the browser marks its events. The mark is read by the browser's own
 * function, so that an object that only looks like an event has none.
 */
const readTrust = Object.getOwnPropertyDescriptor(new Event("x"), "isTrusted").get;
function byPerson(event) {
  try {
    return readTrust.call(event);
  } catch {
    return false;
  }
}

/** Listen to what a person does. */
const listen = (node, type, act) => node.addEventListener(type, (event) => byPerson(event) && act(event));

/** 18.2 -> "18 s", 75 -> "1 min 15 s"; below a second `digits` decimals. */
function duration(seconds, digits = 0) {
  const whole = Math.floor(seconds);
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(digits) : whole} s`;
  if (seconds < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** Apply one operation to the state; false when its path leads nowhere. */
function applyOp(state, op) {
  const [verb, path, value] = arr(op);
  if (!Array.isArray(path) || path.length === 0) return false;
  let target = state;
  for (const key of path.slice(0, -1)) {
    if (!Object.hasOwn(obj(target), key)) return false;
    target = target[key];
  }
  const key = path[path.length - 1];
  const fits = Array.isArray(target)
    ? Number.isInteger(key) && key >= 0 && key <= target.length
    : obj(target) === target && typeof key === "string" && key !== "__proto__";
  if (!fits) return false;
  const old = Object.hasOwn(target, key) ? target[key] : undefined;
  if (verb === "set") target[key] = value;
  else if (verb === "append" && typeof old === "string") target[key] = old + str(value);
  else if (verb === "push" && Array.isArray(old)) old.push(value);
  else return false;
  return true;
}

// ---- nodes ----------------------------------------------------------------------------------

/** An element; strings among the children become text nodes, never markup. */
function h(tag, className = "", attributes = {}, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const button = (label, className, onClick) => {
  const node = h("button", className, { type: "button" }, label);
  listen(node, "click", onClick);
  return node;
};

/** Put a text on the clipboard. Without the browser's function for it, on a page without TLS. */
async function copyText(text, near) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", "ja-sr", { "aria-hidden": "true", tabindex: "-1" });
    near.after(field);
    field.value = text;
    field.select();
    document.execCommand("copy");
    field.remove();
    near.focus({ preventScroll: true });
  }
}

/** A button that copies what `read` gives. */
function createCopy(what, read) {
  const copy = button("Copy", "ja-copy", async () => {
    await copyText(read(), copy);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), COPIED_MS);
  });
  copy.setAttribute("aria-label", `Copy ${what}`);
  return copy;
}

/** A setter for an element's text: what only grew is appended, what is the same is not touched. */
function growing(element) {
  const node = element.appendChild(document.createTextNode(""));
  let shown = "";
  return (value) => {
    if (value === shown) return false;
    if (value.startsWith(shown)) node.appendData(value.slice(shown.length));
    else node.data = value;
    shown = value;
    return true;
  };
}

/** Keep one part for each item, in order. `keyOf` says when a place holds something else now. */
function listOf(parent, create, keyOf = () => "") {
  const parts = [];
  return (items, ...more) => {
    for (const part of parts.splice(items.length)) part.node.remove();
    items.forEach((item, index) => {
      const key = keyOf(item);
      const old = parts[index];
      if (old?.key !== key) {
        parts[index] = Object.assign(create(item), { key });
        if (old) old.node.replaceWith(parts[index].node);
        else parent.append(parts[index].node);
      }
      parts[index].sync(item, index === items.length - 1, ...more);
    });
    parent.hidden = items.length === 0;
  };
}

/** A part that shows a string, with something before and after it. */
function textLine(tag, className, before = "", after = "") {
  const text = h("bdi");
  const node = h(tag, className, {}, before, text, after);
  const set = growing(text);
  return { node, sync: (value) => set(str(value)) };
}

/** Keep a scrolling element at its end until the person scrolls away from it. */
function followEnd(element, onChange = () => {}) {
  let following = true;
  const look = () => {
    following = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
    onChange(following);
  };
  element.addEventListener("scroll", look);
  return {
    look,
    pull: () => {
      if (following) element.scrollTop = element.scrollHeight;
    },
    resume: () => {
      following = true;
      element.scrollTop = element.scrollHeight;
    },
  };
}

// ---- the model's text: paragraphs, lists, `code`, **bold**, fenced code ---------------------------

/** Split text into blocks; an unfinished one at the end is shown as far as it goes. */
function blocksOf(text) {
  const blocks = [];
  let open = null;
  const begin = (kind, line, extra = {}) => {
    open = { kind, lines: [line], ...extra };
    blocks.push(open);
  };
  for (const line of text.split("\n")) {
    const fence = /^\s*```/.test(line);
    if (open?.kind === "pre") {
      if (fence) open = null;
      else open.lines.push(line);
      continue;
    }
    const item = /^(\s*)([-*+]|\d{1,3}[.)])\s+(\S.*)$/.exec(line);
    const heading = /^#{1,6}\s+(\S.*)$/.exec(line);
    if (fence) begin("pre", null);
    else if (item) begin("li", item[3], { mark: bullet(item[2]), depth: item[1].length >> 1 });
    else if (heading) begin("h", heading[1]);
    else if (!line.trim()) open = null;
    else if (open && open.kind !== "h") open.lines.push(line.trimStart());
    else begin("p", line);
  }
  return blocks.map(({ lines, ...block }) => ({
    ...block,
    text: lines.filter((line) => line !== null).join("\n"),
  }));
}

const bullet = (mark) => (/\d/.test(mark) ? mark : "•");

/** `code` and **bold** within one block; a mark that is not closed on its line stays as it is. */
function segmentsOf(text) {
  const segments = [];
  let end = 0;
  for (const match of text.matchAll(/`([^`\n]+)`|\*\*([^*\n]+)\*\*/g)) {
    if (match.index > end) segments.push({ tag: "span", text: text.slice(end, match.index) });
    segments.push(match[1] ? { tag: "code", text: match[1] } : { tag: "b", text: match[2] });
    end = match.index + match[0].length;
  }
  if (end < text.length) segments.push({ tag: "span", text: text.slice(end) });
  return segments;
}

function createSegment({ tag }) {
  const node = h(tag);
  const set = growing(node);
  return { node, sync: (segment) => set(segment.text) };
}

function createBlock({ kind, mark, depth }) {
  const node = h(kind === "pre" ? "pre" : "p", `ja-${kind}`, { dir: kind === "pre" ? "ltr" : "auto" });
  if (kind === "pre") {
    const set = growing(node);
    return { node, sync: (block) => set(block.text) };
  }
  if (mark) node.append(h("span", "", {}, `${mark} `));
  if (depth) node.style.marginInlineStart = `${Math.min(depth, 4) * 1.2}em`;
  const text = node.appendChild(h("span"));
  const sync = listOf(text, createSegment, (segment) => segment.tag);
  return { node, sync: (block) => sync(segmentsOf(block.text)) };
}

function createProse() {
  const node = h("div", "ja-prose");
  const sync = listOf(node, createBlock, ({ kind, mark, depth }) => `${kind}${mark}${depth}`);
  let shown = null;
  return {
    node,
    sync: (text) => {
      if (text !== shown) sync(blocksOf(text));
      shown = text;
    },
  };
}

// ---- Python ---------------------------------------------------------------------------------

const words = (text) => new Set(text.split(" "));
const KEYWORDS = words(
  "and as assert async await break case class continue def del elif else except finally for from" +
    " global if import in is lambda match nonlocal not or pass raise return try while with yield" +
    " None True False",
);
const BUILTINS = words(
  "abs all any bool bytes dict dir display enumerate filter float getattr hasattr int isinstance" +
    " iter len list map max min next object open print range repr reversed round set sorted str" +
    " sum super tuple type vars zip",
);
const TOKEN =
  /(#[^\n]*)|[rbfut]{0,2}("""|'''|"|')|(^[ \t]*(?:@[\w.]+|[%!][^\n]*))|([\p{L}_][\p{L}\p{N}_]*)|(\d[\w.]*)/gimu;

/** Where the string that was opened with `quote` before `from` ends. */
function endOfString(code, quote, from) {
  const stop = new RegExp(`\\\\[^]|${quote}${quote.length === 1 ? "|\\n" : ""}`, "g");
  stop.lastIndex = from;
  for (let match = stop.exec(code); match; match = stop.exec(code)) {
    if (match[0][0] !== "\\") return stop.lastIndex;
  }
  return code.length;
}

function wordClass(word) {
  if (KEYWORDS.has(word)) return "ja-k";
  return BUILTINS.has(word) ? "ja-b" : "";
}

/** Python source as nodes. Each character is looked at a fixed number of times, whatever it is. */
function highlight(code) {
  const nodes = document.createDocumentFragment();
  let end = 0;
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(code); match; match = TOKEN.exec(code)) {
    const [whole, comment, quote, line, word] = match;
    if (quote) TOKEN.lastIndex = endOfString(code, quote, TOKEN.lastIndex);
    const kind = comment ? "ja-c" : quote ? "ja-s" : line ? "ja-d" : word ? wordClass(word) : "ja-n";
    if (!kind) continue;
    nodes.append(code.slice(end, match.index));
    end = quote ? TOKEN.lastIndex : match.index + whole.length;
    nodes.append(h("span", kind, {}, code.slice(match.index, end)));
  }
  nodes.append(code.slice(end));
  return nodes;
}

// ---- a tool call ------------------------------------------------------------------------------

/** The code or the arguments; colours come once the text no longer grows. */
function createBody() {
  const code = h("pre", "ja-code", { dir: "ltr" });
  let text = "";
  const copy = createCopy("this code", () => text);
  const node = h("div", "ja-copied", {}, code, copy);
  let set = growing(code);
  let coloured = null;
  const sync = ({ body, language, state }) => {
    text = str(body);
    const colour = language === "python" && state !== "waiting" && text.length < HIGHLIGHT_LIMIT;
    node.hidden = text === "";
    copy.hidden = language !== "python" || state === "waiting" || state === "asking";
    if (colour && coloured !== text) code.replaceChildren(highlight(text));
    else if (!colour) {
      if (coloured !== null) {
        code.replaceChildren();
        set = growing(code);
      }
      set(text);
    }
    coloured = colour ? text : null;
  };
  return { node, sync };
}

function createImage() {
  const node = h("img", "ja-image");
  let shown = null;
  const sync = ({ mime, data, alt }) => {
    node.alt = str(alt) || "Figure";
    if (data === shown) return;
    shown = data;
    const safe = /^image\/(png|jpeg|gif)$/.test(mime) && /^[A-Za-z0-9+/=\s]+$/.test(data);
    if (safe) node.src = `data:${mime};base64,${data}`;
    else node.removeAttribute("src");
  };
  return { node, sync };
}

const DIFF_LINES = { "+": ["ins", "ja-plus"], "-": ["del", "ja-minus"], "@": ["span", "ja-skipped"] };

/** One line of a difference. Its first character, the kind, stays in sight: colour alone says nothing. */
function diffLine(line) {
  const text = str(line);
  const [tag, className] = DIFF_LINES[text[0]] ?? ["span", ""];
  return h(tag, className, {}, text[0] === "@" ? `⋯ ${text.slice(1)}` : text || " ");
}

/** The difference of one file or cell: its title, how much is added and removed, and the lines. */
function createDiff() {
  const [title, added, removed] = [h("code", "ja-title"), h("span", "ja-plus"), h("span", "ja-minus")];
  const box = h("pre", "", { dir: "ltr", tabindex: "0" });
  const node = h("div", "ja-diff", { role: "group" }, h("div", "ja-counts", {}, title, added, removed), box);
  const sets = [growing(title), growing(added), growing(removed)];
  let shown = null;
  const sync = (diff) => {
    const [plus, minus] = [Number(diff.added) || 0, Number(diff.removed) || 0];
    sets[0](str(diff.title));
    sets[1](plus ? `+${plus.toLocaleString("en-US")}` : "");
    sets[2](minus ? `−${minus.toLocaleString("en-US")}` : "");
    node.setAttribute("aria-label", `Changes of ${str(diff.title)}: ${plus} added, ${minus} removed`);
    const text = JSON.stringify(arr(diff.lines));
    if (text === shown) return;
    shown = text;
    box.replaceChildren(...arr(diff.lines).map(diffLine));
  };
  return { node, sync };
}

/** Differences, one below the other: a list of `{title, added, removed, lines}`. */
function createDiffs() {
  const node = h("div", "ja-diffs");
  return { node, sync: listOf(node, createDiff) };
}

function createText({ kind }) {
  const known = kind === "error" || kind === "notice" ? kind : "text";
  const node = h(known === "notice" ? "p" : "pre", `ja-out ja-${known}`, { dir: "auto" });
  const set = growing(node);
  const tail = followEnd(node);
  const sync = ({ text }, last, running) => {
    if (set(str(text)) && running) tail.pull();
  };
  return { node, sync };
}

/** A data frame: cells as text nodes, in a box that scrolls. */
function createTable() {
  const node = h("div", "ja-table");
  let shown = null;
  const cellOf = ([text, across, down, isHead]) => {
    const cell = h(isHead ? "th" : "td", "", {}, str(text));
    cell.colSpan = Number(across) || 1;
    cell.rowSpan = Number(down) || 1;
    return cell;
  };
  const rowOf = (cells) => h("tr", "", {}, ...arr(cells).map((cell) => cellOf(arr(cell))));
  const sync = ({ rows, head, left }) => {
    if (rows === shown) return;
    shown = rows;
    const all = arr(rows).map(rowOf);
    const heads = h("thead", "", {}, ...all.slice(0, Number(head) || 0));
    const rest = h("tbody", "", {}, ...all.slice(Number(head) || 0));
    const more = Number(left) > 0 ? `${Number(left).toLocaleString("en-US")} more rows` : "";
    node.replaceChildren(h("table", "", {}, heads, rest), more && h("div", "ja-muted", {}, more));
  };
  return { node, sync };
}

function createOutput(output) {
  if (output.kind === "image") return createImage();
  if (output.kind === "table") return createTable();
  return output.kind === "diff" ? createDiff() : createText(output);
}

/** On Enter (but not while an input method composes) and on Escape. */
function onKeys(input, onEnter, onEscape = () => {}) {
  listen(input, "keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter") onEnter();
    if (event.key === "Escape") onEscape();
  });
}

/** Gives what a person typed into a field. What a script put there is not sent in their name. */
function typedInto(input) {
  let typed = "";
  listen(input, "input", () => (typed = input.value));
  return {
    read: () => {
      if (input.value !== typed) input.value = "";
      return input.value.trim();
    },
    unsent: () => typed.trim(),
    empty: () => (input.value = typed = ""),
  };
}

/** One difference of a question, which is accepted or rejected alone. `onChoice` gets true or false. */
function createPart(onChoice) {
  const diff = createDiff();
  let number = 0;
  const choices = [
    ["Accept", true],
    ["Reject", false],
  ].map(([label, value]) => ({ node: button(label, "", () => choose(value)), label, value }));
  const row = h("div", "ja-row", {}, ...choices.map(({ node }) => node));
  const node = h("div", "ja-part", { role: "group" }, diff.node, row);
  const choose = (value) => {
    for (const each of choices) each.node.setAttribute("aria-pressed", String(each.value === value));
    onChoice(number, value);
  };
  const sync = (shown, last, all) => {
    number = all.indexOf(shown);
    node.setAttribute("aria-label", `Edit ${number + 1}`);
    for (const each of choices) each.node.setAttribute("aria-label", `${each.label} edit ${number + 1}`);
    diff.sync(shown);
  };
  return { node, sync };
}

/** The answers to the question that waits: in the header, which is always in sight. */
function createChoices(turn, callId, leave) {
  const why = h("input", "", {
    type: "text",
    placeholder: "Why not? The agent reads this.",
    "aria-label": "Reason for refusing",
  });
  const send = (answer, reason = "") => {
    turn.answer(callId, answer, reason);
    leave();
  };
  const reply = (answer) => () => send(answer);
  const typed = typedInto(why);
  const refuse = () => finish(false, typed.read());
  const showWhy = (shown) => {
    reason.hidden = !shown;
    no.setAttribute("aria-expanded", String(shown));
    (shown ? why : no).focus();
  };
  // What was chosen for single parts of the question holds; the buttons here are for the rest.
  const numbers = (accepted) => {
    const chosen = turn.chosen(callId);
    const all = Array.from({ length: count }, (_, number) => number);
    return all.filter((number) => (chosen.has(number) ? chosen.get(number) : accepted));
  };
  const finish = (accepted, why = "") => {
    const going = numbers(accepted);
    if (count ? going.length === 0 : !accepted) return send("no", why);
    const rejected = Array.from({ length: count }, (_, number) => number).filter((number) => !going.includes(number));
    turn.answer(callId, "yes", why, rejected);
    leave();
  };
  let count = 0;
  const yes = button("Yes", "ja-primary", () => finish(true));
  const always = button("Always in this session", "", reply("always"));
  const no = button("No, because …", "", () => showWhy(reason.hidden));
  no.setAttribute("aria-expanded", "false");
  const reason = h("div", "ja-row", {}, why, button("Refuse", "", refuse));
  reason.hidden = true;
  onKeys(why, refuse, () => showWhy(false));
  const node = h("div", "ja-choices", {}, h("div", "ja-row", {}, yes, always, no), reason);
  const sync = (question) => {
    count = question.byPart ? arr(question.diffs).length : 0;
    const which = turn.chosen(callId).size ? " the rest" : count > 1 ? " all" : "";
    yes.textContent = count ? `Accept${which}` : "Yes";
    no.textContent = count ? `Reject${which}, because …` : "No, because …";
    always.title = `Do not ask again in this session for: ${str(question.always)}`;
    always.hidden = !question.always;
    const given = turn.answered(callId, question) || turn.isTooSoon;
    for (const control of node.querySelectorAll("button, input")) control.disabled = Boolean(given);
  };
  return { node, sync };
}

/** A question among all of a turn: a delegate may ask the same one again. */
const questionKey = ({ id, question }) =>
  [id, obj(question).number, obj(question).text].map(str).join("\n");

/** What a question is about, in one line. */
const aboutOf = ({ question, gist }) => str(obj(question).about ?? gist);

/** Whether a question is answered in words. */
const isInWords = (question) => Array.isArray(obj(question).choices);

/** The answers to a question of the agent's own: a button for each choice, and a field for any other. */
function createReplies(turn, callId, leave) {
  const field = h("input", "", { type: "text", "aria-label": "Your answer to the agent", autocomplete: "off" });
  const typed = typedInto(field);
  const reply = (shown, answer) => {
    turn.reply(callId, shown, answer);
    leave();
  };
  const send = () => {
    const text = typed.read();
    if (text) reply(text, { text });
  };
  onKeys(field, send);
  const createChoice = ({ text, number }) => ({
    node: button(text, "", () => reply(text, { choice: number })),
    sync: () => {},
  });
  const choices = h("div", "ja-row");
  const syncChoices = listOf(choices, createChoice, ({ text }) => text);
  const node = h("div", "ja-choices", {}, choices, h("div", "ja-row", {}, field, button("Answer", "", send)));
  const sync = (question) => {
    const texts = arr(question.choices).map(str);
    syncChoices(texts.map((text, number) => ({ text, number })));
    field.placeholder = texts.length ? "Another answer" : "Your answer";
    const given = turn.answered(callId, question) || turn.isTooSoon;
    for (const control of node.querySelectorAll("button, input")) control.disabled = Boolean(given);
  };
  return { node, sync };
}

/** What the agent wants to know before it goes on. It stays visible when the card is folded. */
function createQuestion(turn, callId, leave) {
  const text = textLine("p", "ja-asked");
  const covers = textLine("p", "ja-muted", "“Always” covers: ");
  const reasons = h("ul", "ja-reasons");
  const diffs = createDiffs();
  const answered = textLine("p", "ja-muted", "answered: ");
  const node = h("div", "ja-question", { role: "group", "aria-label": "The agent asks" });
  const parts = h("div", "ja-diffs");
  node.append(text.node, reasons, diffs.node, parts, covers.node, answered.node);
  const syncReasons = listOf(reasons, () => textLine("li", ""));
  const chosen = turn.chosen(callId);
  let count = 0;
  // The last choice answers: what was rejected stays as it is, the rest is done.
  const choose = (number, accepted) => {
    chosen.set(number, accepted);
    if (chosen.size < count) return;
    const rejected = [...chosen.keys()].filter((key) => !chosen.get(key)).sort((one, other) => one - other);
    if (rejected.length === count) turn.answer(callId, "no", "");
    else turn.answer(callId, "yes", "", rejected);
    leave();
  };
  const syncParts = listOf(parts, () => createPart(choose));
  const sync = (question) => {
    const shown = arr(question.diffs).map(obj);
    const offered = question.byPart ? shown : [];
    count = offered.length;
    syncParts(offered, offered);
    parts.classList.toggle("ja-single", count === 1);
    const given = turn.answered(callId, question);
    for (const control of parts.querySelectorAll("button")) control.disabled = Boolean(given || turn.isTooSoon);
    text.sync(question.text);
    syncReasons(arr(question.reasons));
    diffs.sync(question.byPart ? [] : shown);
    covers.sync(question.always);
    covers.node.hidden = !question.always;
    answered.sync(given);
    answered.node.hidden = !given;
  };
  return { node, sync };
}

const MARKS = { done: "✓", failed: "✗", refused: "⊘", interrupted: "■", not_run: "–" };

/** What the summary says at its right end, for the eye and for a screen reader. */
function callStatus(call, state, seconds) {
  const note = str(call.note);
  if (state === "asking") return { seen: "waiting for you", heard: "waiting for you", note: "" };
  if (state === "running") {
    const label = seconds < UNFOLD_AFTER_S ? state : `${state} ${duration(seconds)}`;
    return { seen: label, heard: label, note };
  }
  const words = state.replace("_", " ");
  const seen = typeof call.seconds === "number" ? duration(call.seconds, 1) : "";
  const stopped = state === "refused" || state === "interrupted" || state === "not_run" || state === "waiting";
  return {
    seen: seen || (stopped ? words : ""),
    heard: note ? `${words}: ${note}` : words,
    note,
  };
}

/**
 * What a delegate does, in two parts: a line that is always in sight, of one height whatever it
 * says, and its steps, which are drawn once somebody looks at them.
 */
function createDelegate(turn) {
  const doing = h("span", "ja-now", { dir: "auto" });
  const facts = h("span", "ja-spent");
  const line = h("span", "ja-does", {}, doing, facts);
  const sets = [growing(doing), growing(facts)];
  const notices = h("div");
  const steps = h("div");
  const box = h("div", "ja-its", { tabindex: "0", role: "group", "aria-label": "Its steps" }, notices, steps);
  const node = h("details", "ja-steps", { open: "" }, h("summary", "", {}, "Its steps"), box);
  const tail = followEnd(box);
  const parts = [];
  const syncNotices = listOf(notices, () => textLine("p", "ja-notice"));
  let shown = null;

  const syncLine = (its) => {
    doing.title = str(its.now);
    sets[0](str(its.now));
    sets[1](str(its.facts));
    // A call that runs is timed from when it was first seen, whether it is drawn or not.
    for (const call of arr(obj(arr(its.steps).at(-1)).calls)) turn.secondsOf(obj(call));
  };
  const syncSteps = (its) => {
    syncNotices(arr(its.notices));
    const list = arr(its.steps);
    for (const part of parts.splice(list.length)) part.node.remove();
    // The steps before the last one that was drawn are as they were, however many there are.
    const from = list === shown ? Math.max(parts.length - 1, 0) : 0;
    shown = list;
    for (let index = from; index < list.length; index += 1) {
      if (!parts[index]) {
        parts[index] = createStep(turn, true);
        steps.append(parts[index].node);
      }
      parts[index].sync(obj(list[index]), index === list.length - 1, Boolean(its.running));
    }
    node.hidden = list.length === 0 && arr(its.notices).length === 0;
    if (its.running) tail.pull();
  };
  return { line, node, syncLine, syncSteps };
}

/**
 * A card opens itself when it needs or shows something now, and folds when the agent goes on. That of
 * a delegate opens for a question alone, and none inside of it by itself: several may be at work.
 */
function createCard(turn, isInner = false) {
  const name = h("code", "ja-name");
  const gist = h("span", "ja-gist");
  const note = h("span", "ja-note", { "aria-hidden": "true" });
  const came = h("span", "ja-came");
  const time = h("span", "ja-time", { "aria-hidden": "true" });
  const mark = h("span", "ja-mark", { "aria-hidden": "true" });
  const heard = h("span", "ja-sr");
  const summary = h("summary", "", {}, name, gist, note, came, time, mark, heard);
  const body = createBody();
  const inside = h("div");
  const outputs = h("div");
  const details = h("details", "", {}, summary, body.node, inside, outputs);
  let its = null;
  const figures = h("div", "ja-figures");
  const slot = h("div");
  const node = h("div", "ja-card", {}, details, figures, slot);
  const set = Object.fromEntries(
    Object.entries({ name, gist, note, came, time, mark, heard }).map(([key, at]) => [key, growing(at)]),
  );
  const syncOutputs = listOf(outputs, createOutput, (output) => str(obj(output).kind));
  // Below the folding part: a finished figure stays in sight, small while the card is folded.
  const syncFigures = listOf(figures, createImage);
  const syncQuestion = listOf(
    slot,
    () => createQuestion(turn, call.id, () => details.querySelector("summary").focus()),
    () => questionKey(call),
  );
  let call = {};
  let unfolded = false;
  let wanted = false;
  let choice = null;

  // What is folded is not drawn, so that long outputs cost nothing until somebody looks.
  const fill = () => {
    if (!details.open) return;
    body.sync(call);
    if (call.delegate) its.syncSteps(call.delegate);
    const rest = arr(call.outputs).map(obj).filter(({ kind }) => kind !== "image");
    syncOutputs(rest, call.state === "running");
  };
  // `open` differs from what was set here only when the person, or a search of the page, changed it.
  const fold = (open) => {
    if (details.open !== wanted) choice = details.open;
    wanted = choice ?? open;
    if (details.open !== wanted) details.open = wanted;
  };
  // Who reads or selects in an open card has chosen to keep it open.
  const keep = ({ target }) => {
    if (details.open && !summary.contains(target)) choice ??= true;
  };
  details.addEventListener("toggle", fill);
  listen(details, "pointerdown", keep);
  details.addEventListener("focusin", keep);

  const becomeDelegate = () => {
    its = createDelegate(turn);
    summary.append(its.line);
    inside.append(its.node);
    node.dataset.delegate = "true";
  };

  const sync = (item, last, inLastStep) => {
    call = item;
    if (call.delegate && !its) becomeDelegate();
    const seconds = turn.secondsOf(call);
    // Code that runs may wait for an answer in the input line.
    const state = call.state === "running" && !isInner && turn.asksByLine(call) ? "asking" : str(call.state);
    const status = callStatus(call, state, seconds);
    node.dataset.state = state;
    gist.title = str(call.gist);
    set.name(str(call.name));
    set.gist(str(call.gist));
    set.note(status.note);
    came.title = str(call.came);
    set.came(call.came ? `→ ${str(call.came)}` : "");
    set.time(status.seen);
    set.mark(MARKS[state] ?? "");
    set.heard(status.heard);
    if (call.delegate) its.syncLine(call.delegate);
    else if (its) its.line.hidden = its.node.hidden = true; // it could not begin
    const isLong = call.state === "running" && seconds > UNFOLD_AFTER_S && !isInner && !its;
    if (isInner) unfolded = false;
    else if (state === "asking" || isLong) unfolded = true;
    else if (its || !(last && inLastStep)) unfolded = false;
    fold(unfolded);
    fill();
    syncFigures(arr(call.outputs).map(obj).filter(({ kind }) => kind === "image"));
    syncQuestion(call.state === "asking" && call.question ? [call.question] : []);
  };
  return { node, sync };
}

// ---- a step, the plan, the whole view -----------------------------------------------------------

function createStep(turn, isInner = false) {
  const said = h("div");
  const label = h("summary");
  const thinking = h("div", "ja-thought", { dir: "auto" });
  const thought = h("details", "ja-thinking", {}, label, thinking);
  const prose = createProse();
  let answer = "";
  const copy = createCopy("this answer", () => answer);
  const spoken = h("div", "ja-copied", {}, prose.node, copy);
  const notices = h("div");
  const calls = h("div");
  const node = h("div", "", {}, said, thought, spoken, notices, calls);
  node.setAttribute("role", "group");
  const setLabel = growing(label);
  const setThinking = growing(thinking);
  const syncSaid = listOf(said, () => textLine("p", "ja-said", h("b", "", {}, "You: ")));
  const syncNotices = listOf(notices, () => textLine("p", "ja-notice"));
  const syncCalls = listOf(calls, () => createCard(turn, isInner), (call) => str(call.id));
  const sync = (step, last, running) => {
    const quiet = !step.text && arr(step.calls).length === 0;
    node.setAttribute("aria-label", `Step ${str(step.number)}`);
    setLabel(last && running && quiet ? "Thinking …" : "Thinking");
    setThinking(str(step.thinking));
    thought.hidden = !step.thinking;
    answer = str(step.text);
    prose.sync(answer);
    copy.hidden = !answer || isInner || arr(step.calls).length > 0;
    syncSaid(arr(step.said));
    syncNotices(arr(step.notices));
    syncCalls(arr(step.calls).map(obj), last);
  };
  return { node, sync };
}

const PLAN = {
  done: ["●", "done"],
  in_progress: ["◐", "in progress"],
  pending: ["○", "pending"],
};

function createPlanItem() {
  const glyph = h("span", "ja-glyph", { "aria-hidden": "true" });
  const text = h("bdi");
  const state = h("span", "ja-sr");
  const node = h("li", "", {}, glyph, text, state);
  const sets = [growing(glyph), growing(text), growing(state)];
  const sync = (item) => {
    const known = Object.hasOwn(PLAN, obj(item).state) ? item.state : "pending";
    node.dataset.state = known;
    sets[0](PLAN[known][0]);
    sets[1](str(obj(item).text));
    sets[2](` (${PLAN[known][1]})`);
  };
  return { node, sync };
}

function headline(state, elapsed) {
  const steps = state.max_steps ? `step ${state.step} of ${state.max_steps}` : `step ${state.step}`;
  const tokens = `${Number(state.tokens || 0).toLocaleString("en-US")} tokens`;
  return [steps, tokens, str(state.cost), duration(elapsed)].filter(Boolean);
}

const BY_LINE = "Answer in the input line of this cell, and press Enter.";
const ENTER_BY = "Alt+Shift+A leads there";
const ELSEWHERE =
  "The question went to the page that started the cell: this page cannot answer it. Stop ends it.";

/** What waits for the person, how long it will, and the answers. */
function createWaiting(turn, leave) {
  const text = h("span", "ja-wants", { dir: "auto" });
  const left = h("span", "ja-left");
  const where = h("span", "ja-where");
  const slot = h("div");
  const heading = h("b", "", { title: ENTER_BY }, "Waiting for you");
  const node = h("div", "ja-waiting", { role: "group", "aria-label": "Your answer", "aria-keyshortcuts": "Alt+Shift+A" });
  node.append(heading, left, text, where, slot);
  const setText = growing(text);
  const setLeft = growing(left);
  const setWhere = growing(where);
  const create = ({ id, question }) => {
    const make = isInWords(question) ? createReplies : createChoices;
    const choices = make(turn, id, () => node.contains(document.activeElement) && leave());
    return { node: choices.node, sync: ({ question }) => choices.sync(question) };
  };
  const syncChoices = listOf(slot, create, questionKey);
  return {
    node,
    sync: (waits) => {
      node.hidden = !waits;
      const about = isInWords(waits?.call?.question) ? "" : aboutOf(obj(waits?.call));
      setText(str(waits?.text) + (about ? ` ${str(about)}` : ""));
      setLeft(waits?.left > 0 ? `${duration(waits.left)} left` : "");
      setWhere(waits?.line ? (turn.isServed ? BY_LINE : ELSEWHERE) : "");
      syncChoices(waits?.call ? [waits.call] : []);
    },
  };
}

/** The header: what it is at, what it cost so far, and the way to stop it. */
function createHeader(turn) {
  const facts = h("span", "ja-facts");
  const activity = h("span", "ja-activity", { dir: "auto" });
  const stop = button("Stop", "ja-stop", () => turn.stop());
  stop.title = "Stop the agent; what it has finished stays";
  const dot = h("span", "ja-dot", { "aria-hidden": "true" });
  const head = h("div", "ja-head", {}, dot, facts, activity, stop);
  const node = h("div", "ja-top", { tabindex: "-1" }, head);
  const waiting = createWaiting(turn, () => node.focus());
  node.append(waiting.node);
  const setFacts = growing(facts);
  const setActivity = growing(activity);
  const sync = (state) => {
    setFacts(headline(state, turn.elapsed()).join(" · "));
    facts.title = str(state.model);
    setActivity(str(state.running ? state.activity : state.ending));
    stop.hidden = !state.running;
    stop.disabled = turn.stopping;
    stop.textContent = turn.stopping ? "Stopping…" : "Stop";
    waiting.sync(turn.waiting);
  };
  const choice = () => waiting.node.querySelector("button:enabled, input:enabled");
  return { node, sync, choice };
}

/** The field that steers, and what was said but not read yet. */
function createFooter(turn) {
  const invitation = "Say something to the agent; it reads it at its next step";
  const field = h("input", "", {
    type: "text",
    placeholder: invitation,
    "aria-label": "Steer the agent",
    autocomplete: "off",
  });
  const typed = typedInto(field);
  const send = () => {
    if (turn.steer(typed.read())) typed.empty();
  };
  onKeys(field, send);
  const unread = h("ul", "ja-unread", { "aria-label": "Not read yet" });
  const press = button("Send", "", send);
  const row = h("div", "ja-row", {}, field, press);
  const node = h("div", "ja-foot", {}, unread, row);
  const createUnread = ({ when }) => {
    const hint = h("i", "ja-muted", {}, ` (${when})`);
    const line = textLine("li", "", h("b", "", {}, "You: "), hint);
    return { node: line.node, sync: ({ text }) => line.sync(text) };
  };
  const syncUnread = listOf(unread, createUnread, ({ when }) => when);
  const sync = (state) => {
    const when = state.running ? "read at the next step" : "not read";
    const items = [...arr(state.unread), ...turn.sent].map((text) => ({ text, when }));
    syncUnread(items);
    row.hidden = !state.running;
    node.hidden = row.hidden && items.length === 0;
    const isHeld = Boolean(turn.waiting?.line);
    field.disabled = press.disabled = isHeld;
    field.placeholder = isHeld ? "The agent's code waits for your answer first" : invitation;
  };
  return { node, sync, unsent: typed.unsent, field: () => (field.disabled || row.hidden ? null : field) };
}

/** Light text on the page means a dark theme, whichever program shows the notebook. */
function matchTheme(root) {
  const [red, green, blue] = (getComputedStyle(root).color.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
  root.style.colorScheme = red * 0.3 + green * 0.6 + blue * 0.1 > 128 ? "dark" : "light";
}

/** Remember scrolling and focus, which the page forgets when an output is drawn again, or is replaced. */
function rememberPlace(root) {
  const scrolled = new Map();
  let left = { element: null, at: 0 };
  root.addEventListener("scroll", ({ target }) => scrolled.set(target, target.scrollTop), true);
  root.addEventListener("focusin", ({ target }) => (left = { element: target, at: Infinity }));
  root.addEventListener("focusout", ({ target }) => (left = { element: target, at: now() }));
  const isFree = () => !document.activeElement || document.activeElement === document.body;
  const wasHere = () => left.element && now() - left.at < JUST_LEFT_MS && isFree();
  const restore = () => {
    for (const [element, top] of scrolled) {
      if (!root.contains(element)) scrolled.delete(element);
      else if (element.scrollTop !== top) element.scrollTop = top;
    }
    if (wasHere()) left.element.focus({ preventScroll: true });
  };
  /** The view is gone: whoever was in it goes on in its cell, unless it is drawn again at once. */
  const leave = (cell) => {
    if (!wasHere()) return;
    setTimeout(() => !root.isConnected && isFree() && cell?.focus({ preventScroll: true }), REDRAWN_MS);
  };
  return { restore, leave };
}

/** Alt+Shift+A, on any keyboard's layout. */
const isEnterKey = (event) => event.altKey && event.shiftKey && !event.ctrlKey && !event.metaKey && event.code === "KeyA";

/** The cell's outputs, of which the view is one. */
const outputsOf = (host) => host.closest(".jp-OutputArea") ?? host.parentElement;

/** JupyterLab's input lines beside the view that nobody has answered: those with a prompt, or all. */
function inputLines(host, prompt) {
  const lines = [...(outputsOf(host)?.querySelectorAll("input.jp-Stdin-input") ?? [])];
  const isMeant = (line) => prompt === undefined || line.closest(".jp-Stdin-prompt")?.textContent === prompt;
  const isDone = (line) => line.dataset.givenUp || line.closest(".jp-OutputArea-stdin-hiding");
  return lines.filter((line) => isMeant(line) && !isDone(line));
}

/**
 * Submit an input line that the kernel no longer reads: until then JupyterLab runs no other cell.
 * The kernel drops what it gets.
 */
function giveUp(line) {
  const focused = document.activeElement;
  line.dataset.givenUp = "true";
  line.value = line.value ? `(not sent: ${line.value})` : "(not answered)";
  line.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  // JupyterLab moves the focus to the line, and then to the cell.
  if (focused && focused !== line) setTimeout(() => focused.focus({ preventScroll: true }), 0);
}

/** What was typed and not sent stays below the cell's outputs, until the person takes it away. */
function keepUnsent(outputs, text) {
  const words = textLine("span", "", h("b", "", {}, "You typed, and did not send: "));
  const node = h("p", "ja-kept", { role: "note" }, words.node, " ");
  node.append(button("Dismiss", "", () => node.remove()));
  words.sync(text);
  outputs?.append(node);
}

/** One drawing of the turn; a second view of the output gets a second one. */
function createView(turn, host) {
  const header = createHeader(turn);
  const plan = h("ul", "ja-plan", { "aria-label": "Plan", role: "list" });
  const notices = h("div");
  const steps = h("div");
  const body = h("div", "ja-body", {}, notices, steps);
  const inSight = h("div");
  const footer = createFooter(turn);
  const spoken = h("div", "ja-sr", { "aria-live": "polite" });
  const latest = button("↓ Latest", "ja-latest", () => tail.resume());
  const middle = h("div", "ja-middle", {}, body, latest);
  const root = h("div", "ja", { role: "region", "aria-label": "Agent at work" });
  root.append(header.node, inSight, plan, middle, footer.node, spoken);
  latest.hidden = true;
  // JupyterLab takes keys in the capture phase, so it must find this mark; the rest listen as usual.
  root.dataset.lmSuppressShortcuts = "true";
  for (const type of ["keydown", "keypress", "keyup"]) {
    root.addEventListener(type, (event) => event.stopPropagation());
  }
  const tail = followEnd(body, (following) => (latest.hidden = following));
  listen(body, "click", () => requestAnimationFrame(tail.look));
  const { restore, leave } = rememberPlace(root);
  const syncPlan = listOf(plan, createPlanItem);
  const syncNotices = listOf(notices, () => textLine("p", "ja-notice"));
  const syncInSight = listOf(inSight, () => textLine("p", "ja-notice ja-in-sight"));
  const parts = [];

  const syncSteps = (list, changed, running) => {
    for (const part of parts.splice(list.length)) part.node.remove();
    list.forEach((step, index) => {
      if (parts[index] && !changed.has(index) && !changed.has("all")) return;
      if (!parts[index]) {
        parts[index] = createStep(turn);
        steps.append(parts[index].node);
      }
      parts[index].sync(obj(step), index === list.length - 1, running);
    });
  };
  const view = { root, host, connected: false };
  view.sync = (state, changed) => {
    root.dataset.running = String(Boolean(state.running));
    root.dataset.waiting = String(Boolean(turn.waiting));
    header.sync(state);
    syncPlan(arr(state.plan));
    syncNotices(arr(state.notices));
    syncInSight(arr(state.in_sight));
    syncSteps(arr(state.steps), changed, Boolean(state.running));
    footer.sync(state);
    if (state.running && changed.size) tail.pull();
  };
  view.attach = (to) => {
    view.host = to;
    to.replaceChildren(root);
    view.connected = false;
  };
  view.settle = () => {
    if (root.isConnected && !view.connected) {
      view.outputs = outputsOf(view.host);
      matchTheme(root);
      restore();
    } else if (!root.isConnected && view.connected) leave(view.outputs?.closest(".jp-Cell"));
    view.connected = root.isConnected;
  };
  /** Lead the keyboard to what waits for the person, or else to the steering field. */
  view.enter = () => {
    const line = turn.waiting?.line ? inputLines(view.host, str(turn.waiting.line))[0] : null;
    const control = line ?? header.choice() ?? footer.field();
    control?.scrollIntoView({ block: "nearest" });
    control?.focus();
  };
  view.say = (text) => (spoken.textContent = text);
  view.unsent = footer.unsent;
  view.reveal = () => {
    const asked = [...root.querySelectorAll(".ja-question")].at(-1);
    // The whole card, if the window is large enough; else the question.
    for (const part of [root, asked?.closest(".ja-card"), asked]) part?.scrollIntoView({ block: "nearest" });
    const prompt = str(turn.waiting?.line);
    const lines = prompt ? inputLines(view.host, prompt) : [];
    for (const line of lines) line.scrollIntoView({ block: "nearest" });
  };
  return view;
}

// ---- the reader's place -----------------------------------------------------------------------------

const PLACE_AFTER_MS = 3000;
const scrolledTo = new WeakMap();
const heldCells = new Map();

/**
 * Keep what somebody reads below a cell where it is, while the cell grows and shrinks out of sight.
 *
 * Browsers do that by themselves, but JupyterLab lets them do it for the active cell alone, which
 * need not be in sight. A resize observer is called after the browser's own correction and before
 * anything is painted. Gives a function that ends it.
 */
function holdPlace(host) {
  const cell = host.closest(".jp-Cell");
  const pane = cell?.closest(".jp-WindowedPanel-outer");
  if (!pane || pane.style.overflowAnchor === "none") return () => {}; // JupyterLab places cells itself
  const held = heldCells.get(cell) ?? { users: 0, stop: followSize(cell, pane) };
  heldCells.set(cell, held);
  held.users += 1;
  return () => {
    held.users -= 1;
    if (held.users) return;
    heldCells.delete(cell);
    held.stop();
  };
}

function followSize(cell, pane) {
  const note = () => scrolledTo.set(pane, pane.scrollTop);
  const rect = () => cell.getBoundingClientRect();
  let before = rect();
  const look = () => {
    const [after, view] = [rect(), pane.getBoundingClientRect()];
    const [grown, moved] = [after.height - before.height, pane.scrollTop - scrolledTo.get(pane)];
    // Where the cell ended for whoever reads: its top has not moved but by scrolling.
    const end = after.top + moved + before.height;
    const isAbove = after.top + moved < view.top && end < view.top + view.height / 2;
    if (before.height && after.height && isAbove && Math.abs(moved) < 1) pane.scrollTop += grown;
    before = after;
    note();
  };
  const observer = new ResizeObserver(look);
  pane.addEventListener("scroll", note, { passive: true });
  note();
  observer.observe(cell);
  return () => {
    observer.disconnect();
    pane.removeEventListener("scroll", note);
  };
}

// ---- the notebook, for a page that was loaded while the turn ran ----------------------------------

const joined = (text) => (Array.isArray(text) ? text.join("") : str(text));
/** What an output shows, to tell it from another: a transcript alone may be the same twice. */
const shownBy = (output) =>
  JSON.stringify(["text/html", "text/markdown", "text/plain"].map((type) => joined(obj(output.data)[type])));

/** Whether some outputs stand among others, one after the other. */
const isWithin = (outputs, wanted) => {
  const [all, some] = [outputs.map(shownBy), wanted.map(shownBy)];
  return some.length > 0 && all.some((_, at) => some.every((one, index) => all[at + index] === one));
};

const htmlOf = (output) => joined(obj(output.data)["text/html"]);

/**
 * The cell of a turn in JupyterLab's and Notebook's own model of the notebook.
 *
 * JupyterLab gives a cell the outputs of an execution only in the page that started it. After a
 * reload the kernel still speaks, but to nobody; so this module puts them where they belong.
 */
class TurnCell {
  #manager;
  #place;
  #host;
  #wasDirty = null;

  constructor(model) {
    this.#manager = model.widget_manager;
    this.#place = obj(model.get("place"));
    this.#host = `jupyter-agent-live-${str(model.get("host"))}`;
  }

  /** Whether the outputs arrive by themselves. Programs other than JupyterLab see to that. */
  get isServed() {
    const connection = this.#manager?.kernel?.clientId;
    return !connection || connection === this.#place.page;
  }

  get #notebook() {
    return this.#manager?.context?.model;
  }

  /** The kernel's own signal of its state: "busy", "restarting", "dead" and others. */
  get statusChanged() {
    return (this.#manager?.context?.sessionContext ?? this.#manager?.kernel)?.statusChanged;
  }

  /** JupyterLab runs no cell while it believes that an input line is open. */
  removeInputGuard() {
    this.#manager?.kernel?.removeInputGuard?.();
  }

  get ready() {
    return Promise.resolve(this.#manager?.context?.ready);
  }

  #find() {
    const cells = [...(this.#notebook?.cells ?? [])].filter((cell) => cell.type === "code");
    const { id, source } = this.#place;
    const same = cells.filter((cell) => source && cell.sharedModel.getSource() === source);
    return (
      cells.find((cell) => this.#hostIn(cell) >= 0) ??
      cells.find((cell) => id && cell.id === id) ??
      (same.length === 1 ? same[0] : undefined)
    );
  }

  #listed(cell) {
    return Array.from({ length: cell.outputs.length }, (_, index) => cell.outputs.get(index).toJSON());
  }

  #hostIn(cell) {
    return this.#listed(cell).findIndex((output) => htmlOf(output).includes(this.#host));
  }

  /** Have a place for the live view in the cell. What stands there of an earlier run goes. */
  adopt() {
    if (this.isServed) return;
    const cell = this.#find();
    if (!cell || this.#hostIn(cell) >= 0) return;
    this.#change(cell, [this.#output({ data: obj(this.#place.output) })], null);
    // Only what lasts is worth to be saved, perhaps over what another page has saved.
    this.#restoreDirty();
  }

  /** Put the saved form into the cell; gives whether it is there. */
  settle(outputs) {
    const cell = this.#find();
    if (!cell) return false;
    const all = outputs.map((output) => this.#output(output));
    if (this.#hostIn(cell) >= 0 || !isWithin(this.#listed(cell), all)) this.#change(cell, all, Number(this.#place.count) || null);
    return true;
  }

  /** Another page has the outputs, too, and saves them. */
  isKeptElsewhere() {
    this.#restoreDirty();
  }

  #output({ data, metadata }) {
    return { output_type: "display_data", data: obj(data), metadata: obj(metadata) };
  }

  #change(cell, outputs, count) {
    this.#wasDirty ??= this.#notebook.dirty;
    const at = this.#hostIn(cell);
    const old = this.#listed(cell);
    const kept = at < 0 && this.#isOfEarlierRun(cell, old) ? [] : old;
    if (at >= 0) kept.splice(at, 1, ...outputs);
    else kept.push(...outputs);
    cell.outputs.fromJSON(kept);
    // When the other code of a cell is over, nobody says.
    cell.executionCount = this.#place.own ? count : null;
    this.#notebook.dirty = true;
  }

  /** A cell whose run is not over has no number; an older run may have ended without one, too. */
  #isOfEarlierRun(cell, outputs) {
    if (this.#place.own || cell.executionCount !== null) return true;
    const run = `jupyter-agent-run-${str(this.#place.run).replace(/[^A-Za-z0-9-]/g, "-")}`;
    const views = outputs.map(htmlOf).filter((html) => html.includes("jupyter-agent-run-"));
    return views.some((html) => !html.includes(`${run}"`));
  }

  #restoreDirty() {
    if (this.#wasDirty === false) this.#notebook.dirty = false;
    this.#wasDirty = null;
  }
}

// ---- a turn ------------------------------------------------------------------------------------

const MOVES = ["wheel", "touchmove", "pointerdown", "keydown"];

/** Ask the Jupyter server to interrupt: a kernel held by running code cannot read our message. */
async function interruptKernel(kernelId) {
  try {
    const config = JSON.parse(document.getElementById("jupyter-config-data").textContent);
    const base = new URL(config.baseUrl, location.href);
    if (!/^[A-Za-z0-9-]+$/.test(str(kernelId)) || base.origin !== location.origin) return;
    const xsrf = /(?:^|;\s*)_xsrf=([^;]*)/.exec(document.cookie)?.[1];
    const headers = {};
    if (xsrf) headers["X-XSRFToken"] = decodeURIComponent(xsrf);
    if (config.token) headers.Authorization = `token ${config.token}`;
    const url = new URL(`api/kernels/${kernelId}/interrupt`, base);
    await fetch(url, { method: "POST", headers, credentials: "same-origin" });
  } catch {
    // No server here, or it does not answer: the message to the kernel is on its way all the same.
  }
}

const TITLE_MARK = "(?) ";
const asking = new Set();

/** Say in the tab's title that some turn waits for the person. */
function markTitle() {
  const bare = document.title.startsWith(TITLE_MARK) ? document.title.slice(TITLE_MARK.length) : document.title;
  const title = asking.size ? TITLE_MARK + bare : bare;
  if (title !== document.title) document.title = title;
}

/** A notification for a person who is elsewhere, where the browser allows it already; or null. */
function notify(text, tag) {
  if (typeof Notification !== "function" || Notification.permission !== "granted") return null;
  if (!document.hidden && document.hasFocus()) return null;
  try {
    const note = new Notification("The agent waits for you", { body: text, tag });
    note.onclick = () => window.focus();
    return note;
  } catch {
    return null; // some browsers know them in service workers only
  }
}

const ENDINGS = {
  restarting: "The kernel restarted",
  autorestarting: "The kernel died and restarted",
  dead: "The kernel died",
};
const GO_ON = "the turn is over. %load_ext jupyter_agent and then %agent resume go on from here.";

/** Everything that belongs to one model: its state, its views, what the person did. */
class Turn {
  /** @type {State|null} */
  state = null;
  stopping = false;
  sent = [];
  #model;
  #views = [];
  #changed = new Set();
  #frame = 0;
  #timers = { tick: 0, ask: 0, force: 0, claim: 0 };
  #askedAt = -Infinity;
  #stoppedAt = 0;
  #clock = { seconds: 0, at: 0 };
  #started = new Map();
  #answers = new Map();
  #chosen = new Map();
  #answeredAt = -Infinity;
  #waits = { key: "", line: "", since: 0, until: 0, note: null };
  #hasMoved = false;
  #isToReveal = false;
  #isUnsentKept = false;
  #final = null;
  #told = { step: null, running: null, line: "", asked: new Set() };
  #cells = [];
  #held = new Map();
  #name = crypto.getRandomValues(new Uint32Array(2)).join("-");
  #observer = new MutationObserver((records) => this.#onPageChanged(records));

  constructor(model) {
    this.#model = model;
    this.join(model);
    model.on("msg:custom", this.#receive);
    model.on("comm_live_update", this.#onCommLost);
    this.#timers.tick = setInterval(() => this.#tick(), 1000);
    for (const type of MOVES) document.addEventListener(type, this.#noteMove, { capture: true, passive: true });
    document.addEventListener("keydown", this.#noteKey, { capture: true });
  }

  close() {
    this.#fill();
    this.#keepUnsent();
    if (this.state) this.state.running = false;
    this.#followWaiting();
    for (const type of MOVES) document.removeEventListener(type, this.#noteMove, { capture: true });
    document.removeEventListener("keydown", this.#noteKey, { capture: true });
    for (const cell of this.#cells) cell.statusChanged?.disconnect(this.#onStatus);
    this.#model.off("msg:custom", this.#receive);
    this.#model.off("comm_live_update", this.#onCommLost);
    this.#observer.disconnect();
    clearInterval(this.#timers.tick);
    clearTimeout(this.#timers.ask);
    clearTimeout(this.#timers.force);
    clearTimeout(this.#timers.claim);
    cancelAnimationFrame(this.#frame);
    const views = this.#views.splice(0);
    for (const view of views) view.root.remove();
    for (const view of views) view.settle();
    // What takes the view's place is drawn, and grows, a little later.
    setTimeout(() => this.#held.forEach((release) => release()), PLACE_AFTER_MS);
  }

  /** A second connection to the kernel in this page: of the notebook, beside that of a console. */
  join(model) {
    const cell = new TurnCell(model);
    this.#cells.push(cell);
    cell.statusChanged?.connect(this.#onStatus);
    if (!cell.isServed) cell.ready.then(() => this.#ask());
  }

  /** Draw into every host of ours, now and whenever one comes. */
  watch() {
    this.#observer.observe(document.documentElement, { childList: true, subtree: true });
    this.#findHosts();
  }

  #mount(host) {
    let view = this.#views.find((one) => one.host === host);
    view ??= this.#views.find((one) => !one.host.isConnected);
    if (!view) {
      view = createView(this, host);
      this.#views.push(view);
      if (this.state) view.sync(this.state, new Set(["all"]));
    }
    // Until the kernel has told something, the output keeps what stands there.
    if (this.state) view.attach(host);
    else view.host = host;
    const cell = host.closest(".jp-Cell");
    if (cell && !this.#held.has(cell)) this.#held.set(cell, holdPlace(host));
    if (this.#askedAt === -Infinity) this.#ask();
  }

  /** The turn's seconds, without those in which it waits for the person. */
  elapsed() {
    const until = this.#waits.since || now();
    const since = this.state?.running ? (until - this.#clock.at) / 1000 : 0;
    return this.#clock.seconds + Math.max(0, since);
  }

  /** What waits for the person: the question, and the call or the input line; else null. */
  get waiting() {
    if (!this.state?.running) return null;
    const { line, text } = obj(this.state.wait);
    const left = (this.#waits.until - now()) / 1000;
    if (line) return { line: str(line), text: str(text), left };
    const calls = arr(arr(this.state.steps).at(-1)?.calls);
    const call = calls.find((one) => one.state === "asking" && one.question);
    return call ? { call, text: str(text) || str(call.question.text), left } : null;
  }

  /** Whether the code of this call waits for an answer in the input line. */
  asksByLine(call) {
    if (!this.waiting?.line) return false;
    const about = str(obj(this.state.wait).call);
    return about === "" || about === str(call.id);
  }

  /** Whether a second click on the last answer may have met this question. */
  get isTooSoon() {
    return now() - this.#answeredAt < NEXT_QUESTION_MS;
  }

  /** How long a call has been running, as far as this page has seen it. */
  secondsOf(call) {
    if (call.state !== "running") return 0;
    if (!this.#started.has(call.id)) this.#started.set(call.id, now() - (call.seconds || 0) * 1000);
    return Math.max(0, (this.#waits.since || now()) - this.#started.get(call.id)) / 1000;
  }

  stop() {
    this.#send({ t: "stop" });
    this.#markStopping();
    clearTimeout(this.#timers.force);
    this.#timers.force = setTimeout(
      () => interruptKernel(this.#model.get("kernel_id")),
      FORCE_STOP_MS,
    );
  }

  steer(text) {
    if (!text) return false;
    this.sent.push(text);
    this.#send({ t: "steer", text });
    this.#draw();
    return true;
  }

  /** What the person chose for single parts of a question: accepted or not, by number. */
  chosen(call) {
    if (!this.#chosen.has(call)) this.#chosen.set(call, new Map());
    return this.#chosen.get(call);
  }

  answer(call, answer, reason, rejected = []) {
    const shown = { yes: "yes", always: "always in this session", no: "no" }[answer];
    const but = rejected.length ? `${shown}, without ${rejected.map((number) => number + 1).join(", ")}` : shown;
    this.#noteAnswer(call, reason ? `${but}, ${reason}` : but);
    const { number } = this.#question(call);
    this.#send({ t: "answer", call, number, answer, reason, ...(rejected.length ? { rejected } : {}) });
  }

  /** Answer a question in words, by the number of a choice or by a text: `{choice}` or `{text}`. */
  reply(call, shown, answer) {
    this.#noteAnswer(call, shown);
    this.#send({ t: "reply", call, number: this.#question(call).number, ...answer });
  }

  #noteAnswer(call, shown) {
    this.#answeredAt = now();
    setTimeout(() => this.#draw(), NEXT_QUESTION_MS + 50);
    this.#answers.set(call, { ...this.#question(call), shown, at: now() });
    this.#draw("all");
  }

  /** What was answered to this question, or "". */
  answered(call, question) {
    const given = this.#answers.get(call);
    return given && given.text === question.text && given.number === question.number ? given.shown : "";
  }

  #question(id) {
    const calls = arr(this.state?.steps).flatMap((step) => arr(step.calls));
    return obj(calls.find((call) => call.id === id)?.question);
  }

  #send(message) {
    try {
      this.#model.send(message);
    } catch {
      // The connection is gone; the saved form of the turn replaces this view.
    }
  }

  /** Ask for the whole state, at most once a second. */
  #ask() {
    clearTimeout(this.#timers.ask);
    const wait = this.#askedAt + ASK_AGAIN_MS - now();
    if (wait > 0) {
      this.#timers.ask = setTimeout(() => this.#ask(), wait);
      return;
    }
    this.#askedAt = now();
    this.#send(this.isServed ? { t: "ready" } : { t: "ready", served: false });
  }

  #receive = (message) => {
    const { t, state, ops, outputs, by, prompt } = obj(message);
    if (t === "state" && state && typeof state === "object") this.#replace(state);
    else if (t === "patch" && Array.isArray(ops)) this.#patch(ops);
    else if (t === "stopping") this.#markStopping();
    else if (t === "line_over") this.#giveUpLines(str(prompt));
    else if (t === "end") this.#settle(outputs);
    else if (t === "kept") {
      this.#fill();
      if (by !== this.#name) for (const cell of this.#cells) cell.isKeptElsewhere();
    }
    else if (this.#views.length) this.#ask();
  };

  /** The kernel is gone, and with it the turn: nothing waits for an answer any more. */
  #lose(ending) {
    if (!this.state?.running) return;
    const callsOf = (steps) => arr(steps).flatMap((step) => arr(step.calls));
    for (const call of callsOf(this.state.steps).flatMap((one) => [one, ...callsOf(one.delegate?.steps)])) {
      if (call.state === "running" || (call.delegate?.running && call.state === "asking")) call.state = "interrupted";
      else if (call.state === "waiting" || call.state === "asking") call.state = "not_run";
      if (call.delegate?.running) Object.assign(call.delegate, { running: false, now: "interrupted" });
    }
    this.#noteRunning(true, false);
    this.#waits.line = "";
    this.#giveUpLines(); // the kernel may have gone before it told of a line
    Object.assign(this.state, { running: false, ending: `${ending}; ${GO_ON}` });
    this.#followWaiting();
    this.#draw("all");
  }

  #onCommLost = () => this.#lose(ENDINGS.restarting);

  #onStatus = (_, status) => {
    if (!Object.hasOwn(ENDINGS, status)) return;
    // A kernel that died is "restarting" to JupyterLab first, and at once "autorestarting".
    if (status === "autorestarting" && this.state?.ending === `${ENDINGS.restarting}; ${GO_ON}`) {
      this.state.ending = `${ENDINGS.autorestarting}; ${GO_ON}`;
      this.#draw("all");
    } else this.#lose(ENDINGS[status]);
  };

  /** A field that is about to go may hold words of the person's. */
  #keepUnsent() {
    const view = this.#isUnsentKept ? null : this.#views.find((one) => one.unsent());
    if (!view) return;
    keepUnsent(view.outputs, view.unsent());
    this.#isUnsentKept = true;
  }

  /** What follows from a question that begins or ends: at once, also where nothing is drawn. */
  #followWaiting() {
    const waits = this.waiting;
    const key = !waits ? "" : waits.call ? questionKey(waits.call) : `line: ${waits.text}`;
    const { line } = this.#waits;
    this.#waits.line = waits?.line ?? "";
    if (line && line !== this.#waits.line) this.#giveUpLines(line);
    if (key === this.#waits.key) return;
    this.#changed.add(arr(this.state?.steps).length - 1); // the card says who is waited for
    this.#waits.note?.close();
    if (Boolean(key) !== Boolean(this.#waits.key)) this.#holdClocks(Boolean(key));
    Object.assign(this.#waits, { key, note: key ? notify(waits.text, this.#name) : null });
    this.#isToReveal = Boolean(key);
    if (key) asking.add(this);
    else asking.delete(this);
    markTitle();
  }

  #holdClocks(isHeld) {
    if (isHeld) {
      this.#waits.since = now();
      return;
    }
    const since = this.#waits.since;
    this.#clock.seconds = this.elapsed();
    this.#clock.at = now();
    for (const [id, at] of this.#started) this.#started.set(id, at + now() - Math.max(since, at));
    this.#waits.since = 0;
  }

  /** The kernel no longer reads the input line with this prompt; without one, any. */
  #giveUpLines(prompt) {
    if (!this.isServed) return;
    const lines = this.#views.flatMap((view) => inputLines(view.host, prompt));
    for (const line of lines) giveUp(line);
    if (lines.length || this.#waits.line) return; // the guard of the line that is open now stays
    for (const cell of this.#cells) cell.removeInputGuard();
  }

  /** Whoever scrolls, types or clicks elsewhere is not taken to a question. */
  #noteMove = (event) => {
    if (!byPerson(event)) return;
    const isScroll = event.type === "wheel" || event.type === "touchmove";
    this.#hasMoved = isScroll || !this.#views.some((view) => view.root.contains(event.target));
  };

  /** The one key of this page: it leads to the turn that waits, or else to one that runs. */
  #noteKey = (event) => {
    if (!isEnterKey(event) || !this.state?.running || (asking.size && !asking.has(this))) return;
    const view = this.#views.find((one) => one.root.isConnected);
    if (!view || !byPerson(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    view.enter();
  };

  /** The turn is over. The kernel keeps the outputs until a page says that they are in the cell. */
  #settle(outputs) {
    clearTimeout(this.#timers.ask);
    const claim = () => this.#send({ t: "kept", by: this.#name });
    if (this.isServed) claim();
    else if (!Array.isArray(outputs)) this.#ask();
    else {
      // A page that is served comes first: it is the one that saves. The kernel ends the cell after
      // the claim; one that looks finished before would have the next one run, and be aborted.
      this.#final = outputs;
      clearTimeout(this.#timers.claim);
      this.#timers.claim = setTimeout(() => this.#fill() && claim(), CLAIM_AFTER_MS);
    }
  }

  /** Put the saved form into the cell, unless that is done; gives whether it was. */
  #fill() {
    const outputs = this.#final;
    this.#final = null;
    return outputs !== null && this.#cells.some((cell) => cell.settle(outputs));
  }

  get isServed() {
    return this.#cells.some((cell) => cell.isServed);
  }

  #replace(state) {
    clearTimeout(this.#timers.ask);
    const known = [...arr(state.unread), ...arr(state.steps).flatMap((step) => arr(obj(step).said))];
    this.sent = this.sent.filter((text) => !known.includes(text));
    this.#noteRunning(this.state?.running, state.running);
    this.state = state;
    if (!this.#views.length) for (const cell of this.#cells) cell.adopt();
    this.#setClock();
    this.#setDeadline();
    this.#followWaiting();
    this.#draw("all");
  }

  #patch(ops) {
    if (!this.state) {
      if (this.#views.length) this.#ask();
      return;
    }
    const before = this.state.running;
    for (const op of ops) {
      if (!applyOp(this.state, op)) {
        this.#ask();
        break;
      }
      this.#mark(op);
    }
    this.#noteRunning(before, this.state.running);
    this.#followWaiting();
    this.#draw();
  }

  /** Remember which steps an operation touched; a new step also changes the one before it. */
  #mark([verb, path, value]) {
    const [field, index] = path;
    if (field === "elapsed") this.#setClock();
    if (field === "wait") this.#setDeadline();
    if (field === "unread" && verb === "push" && this.sent.length) {
      this.sent.splice(Math.max(this.sent.indexOf(value), 0), 1);
    }
    if (field !== "steps") return;
    if (path.length > 1) this.#changed.add(index);
    if (path.length < 3) this.#changed.add(verb === "push" ? this.state.steps.length - 2 : "all");
  }

  #setClock() {
    this.#clock = { seconds: Number(this.state.elapsed) || 0, at: now() };
  }

  #setDeadline() {
    this.#waits.until = now() + (Number(obj(this.state.wait).left) || 0) * 1000;
  }

  #noteRunning(before, after) {
    if (before === after) return;
    if (before && !after) this.#keepUnsent();
    clearTimeout(this.#timers.force);
    this.stopping = false;
    if (before) this.#clock.seconds += (now() - this.#clock.at) / 1000;
    this.#changed.add("all");
  }

  #markStopping() {
    clearTimeout(this.#timers.force);
    this.stopping = true;
    this.#stoppedAt = now();
    this.#draw();
  }

  #tick() {
    if (!this.state?.running) return;
    // A stop that came to nothing may be tried again.
    if (this.stopping && now() - this.#stoppedAt > STOP_AGAIN_MS) this.stopping = false;
    // So may an answer that the kernel took no notice of.
    for (const [call, { at }] of this.#answers) {
      if (now() - at > ANSWER_AGAIN_MS) this.#answers.delete(call);
    }
    markTitle(); // JupyterLab writes it anew for each document
    for (const view of this.#views) if (view.root.isConnected) matchTheme(view.root);
    this.#draw(arr(this.state.steps).length - 1);
  }

  #draw(changed) {
    if (changed !== undefined) this.#changed.add(changed);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const marks = this.#changed;
      this.#changed = new Set();
      if (!this.state) return;
      for (const view of this.#views) {
        if (!view.host.contains(view.root)) view.attach(view.host);
        view.sync(this.state, marks);
      }
      this.#announce();
      if (this.#isToReveal && !this.#hasMoved) this.#views.find((view) => view.root.isConnected)?.reveal();
      this.#isToReveal = false;
    });
  }

  /** Say what matters once, in one view: a step, a question, the end. Tokens are not read out. */
  #announce() {
    const { step, running, ending } = this.state;
    const asked = arr(arr(this.state.steps).at(-1)?.calls).filter(
      (call) => call.state === "asking" && call.question && !this.#told.asked.has(questionKey(call)),
    );
    const news = asked.map(
      ({ question, gist }) => {
        const about = isInWords(question) ? question.choices.map(str).join(", ") : aboutOf({ question, gist });
        return `Waiting for you. The agent asks: ${str(question.text)} ${about}. ${ENTER_BY}`;
      },
    );
    const byLine = this.waiting?.line ? this.#waits.key : "";
    if (byLine && byLine !== this.#told.line) {
      news.push(`Waiting for you. ${this.waiting.text} ${this.isServed ? `${BY_LINE} ${ENTER_BY}` : ELSEWHERE}`);
    }
    if (this.#told.running && !running) news.push(str(ending) || "The agent has finished.");
    else if (step !== this.#told.step && running && !asked.length) news.push(`Step ${step}`);
    for (const call of asked) this.#told.asked.add(questionKey(call));
    Object.assign(this.#told, { step, running, line: byLine });
    if (news.length) this.#views.find((view) => view.root.isConnected)?.say(news.join(". "));
  }

  #onPageChanged(records) {
    const own = ({ target }) => this.#views.some((view) => view.root.contains(target));
    if (!records.every(own)) this.#findHosts();
  }

  #findHosts() {
    const id = str(this.#model.get("host"));
    if (!/^[a-z0-9]+$/.test(id)) return;
    for (const host of [...document.getElementsByClassName(`jupyter-agent-live-${id}`)]) {
      const here = this.#views.some((view) => view.host === host && host.contains(view.root));
      if (!here) this.#mount(host);
    }
    for (const view of this.#views) view.settle();
  }
}

// ---- what anywidget calls ------------------------------------------------------------------------

const turns = new Map();

/**
 * Called once for a model, when its comm opens. Nothing displays a view of it.
 * Two connections to one kernel in one page (a notebook and a console) have a model each.
 */
function initialize({ model }) {
  const id = str(model.get("host"));
  if (turns.has(id)) {
    turns.get(id).join(model);
    return () => {};
  }
  const turn = new Turn(model);
  turns.set(id, turn);
  turn.watch();
  return () => {
    turns.delete(id);
    turn.close();
  };
}

export default { initialize };
