// @ts-check
/**
 * The notebook for the agent that runs in it: its cells are read here, and edited.
 *
 * The kernel opens a comm (`jupyter_agent/kernel/notebook_page.py`), in which it asks and this page
 * answers. Edits go through the shared model, so that the editor's own undo takes them back, with
 * and without real-time collaboration. No cell is run here, and no file is written.
 *
 * @typedef {import("./context.js").Context} Context
 * @typedef {{kind: "change"|"insert"|"delete"|"move", id: string, old: string, new: string,
 *   after: string, cell: any}} Edit
 */

const TARGET = "jupyter_agent.notebook";
const OUTPUTS = 20;
const OUTPUT_CHARACTERS = 2000;
const SELECTED_CHARACTERS = 10_000;
const VISITS = 50;
/** A cell that is active so soon after the one above it was run is so by that run. */
const BY_RUN_MS = 500;
const PAGE = crypto.getRandomValues(new Uint32Array(2)).join("-");

const cut = (value) => {
  const text = Array.isArray(value) ? value.join("") : String(value ?? "");
  return text.length > OUTPUT_CHARACTERS ? `${text.slice(0, OUTPUT_CHARACTERS)}…` : text;
};

/** An output as a notebook file has it, without its data but for some text. */
function brief(output) {
  const kind = output.output_type;
  if (kind === "stream") return { output_type: kind, name: output.name, text: cut(output.text) };
  if (kind === "error") {
    return { output_type: kind, ename: cut(output.ename), evalue: cut(output.evalue) };
  }
  const names = Object.keys(output.data ?? {});
  const data = names.map((name) => [name, name === "text/plain" ? cut(output.data[name]) : ""]);
  return { output_type: kind, data: Object.fromEntries(data) };
}

function outputsOf(cell) {
  if (cell.type !== "code") return [];
  const most = Math.min(cell.outputs.length, OUTPUTS);
  return Array.from({ length: most }, (_, index) => brief(cell.outputs.get(index).toJSON()));
}

/** The text that is selected in a cell's editor. */
function selectedIn(panel, id) {
  const state = panel.content.widgets.find((cell) => cell.model.id === id)?.editor?.state;
  if (!state?.selection) return "";
  const { from, to } = state.selection.main;
  return state.sliceDoc(from, Math.min(to, from + SELECTED_CHARACTERS));
}

/** Keys that only go from cell to cell. */
const MOVES = new Set(["ArrowUp", "ArrowDown", "k", "j", "K", "J"]);

/** Where the person has been: the cells that became active, and what was done there. */
class Visits {
  isPaused = false;
  /** What was selected before the last click or key: JupyterLab drops it with the next cell. */
  selection = new Map();
  #visits = [];
  #ran = { id: "", at: -Infinity };
  #pointed = -Infinity;

  active(id) {
    if (!id || this.isPaused) return;
    const at = performance.now();
    const isByRun = this.#visits.at(-1)?.id === this.#ran.id && at - this.#ran.at < BY_RUN_MS;
    this.#visits.push({ id, isChosen: !isByRun || at - this.#pointed < BY_RUN_MS });
    this.#pointed = -Infinity;
    this.#visits.splice(0, this.#visits.length - VISITS);
  }

  /** The person clicked or typed in the active cell, or ran it. */
  used() {
    const last = this.#visits.at(-1);
    if (last) last.isChosen = true;
  }

  /** The person clicked in another cell, which is active next. */
  pointed() {
    this.#pointed = performance.now();
  }

  ran(id) {
    this.#ran = { id, at: performance.now() };
  }

  /** The cell in which the person was before they went to `running`, among those that exist. */
  before(running, ids) {
    const chosen = this.#visits.filter(({ isChosen }) => isChosen);
    const last = chosen.findLastIndex(({ id }) => id === running);
    const earlier = last < 0 ? chosen : chosen.slice(0, last);
    const found = earlier.findLast(({ id }) => id !== running && ids.includes(id));
    return found?.id ?? ids[ids.indexOf(running) - 1] ?? "";
  }
}

const idsOf = (panel) => panel.content.model.sharedModel.cells.map((cell) => cell.id);

function read(panel, visits, running) {
  const model = panel.content.model;
  const active = visits.before(running, idsOf(panel));
  const cells = Array.from(model.cells, (cell) => ({
    id: cell.id,
    type: cell.type,
    source: cell.sharedModel.getSource(),
    count: cell.type === "code" ? cell.executionCount : null,
    outputs: outputsOf(cell),
  }));
  const selected = selectedIn(panel, active) || visits.selection.get(active) || "";
  const isThere = cells.some(({ id, source }) => id === active && source.includes(selected));
  return { cells, active, selected: isThere ? selected : "" };
}

/**
 * Make one edit, unless the cell is another one by now.
 * @param {any} panel
 * @param {string} running the cell in which the agent runs
 * @param {Edit} wanted
 */
function edit(panel, running, wanted) {
  const notebook = panel.content.model.sharedModel;
  const ids = idsOf(panel);
  const at = ids.indexOf(wanted.id);
  const cell = notebook.cells[at];
  if (wanted.kind === "insert") {
    if (at >= 0) return { ok: false, why: "changed" };
  } else {
    if (!cell) return { ok: false, why: "gone" };
    if (wanted.id === running) return { ok: false, why: "running" };
    if (cell.getSource() !== wanted.old) return { ok: false, why: "changed" };
    if (isKept(cell, wanted.kind)) return { ok: false, why: "failed" };
  }
  const above = wanted.after ? ids.indexOf(wanted.after) : -1;
  const hasPlace = wanted.kind === "insert" || wanted.kind === "move";
  if (hasPlace && wanted.after && above < 0) return { ok: false, why: "gone" };
  const outcome = { ok: true, was: ids[at - 1] ?? "", cell: cell?.toJSON() ?? null };
  switch (wanted.kind) {
    case "change":
      cell.undoManager?.stopCapturing();
      cell.setSource(wanted.new);
      cell.undoManager?.stopCapturing();
      break;
    case "insert":
      notebook.insertCell(above + 1, untrusted(wanted.cell));
      break;
    case "delete":
      notebook.deleteCell(at);
      break;
    case "move":
      notebook.moveCell(at, above < at ? above + 1 : above);
      break;
    default:
      return { ok: false, why: "failed" };
  }
  return outcome;
}

/** A cell without the word that its outputs may run scripts: only the person gives that. */
function untrusted(cell) {
  const { trusted, ...metadata } = cell.metadata ?? {};
  return { ...cell, metadata };
}

/** Whether the notebook says that this cell must stay as it is. */
function isKept(cell, kind) {
  const { editable, deletable } = cell.getMetadata() ?? {};
  return editable === false || (kind === "delete" && deletable === false);
}

/** Do something with the cells, and leave the person in the cell in which they are. */
function keepingPlace(panel, visits, act) {
  const id = panel.content.activeCell?.model.id;
  visits.isPaused = true;
  try {
    return act();
  } finally {
    const at = panel.content.widgets.findIndex((cell) => cell.model.id === id);
    if (at >= 0 && at !== panel.content.activeCellIndex) panel.content.activeCellIndex = at;
    visits.isPaused = false;
  }
}

function editAll(panel, running, edits) {
  const manager = panel.content.model.sharedModel.undoManager;
  manager?.stopCapturing();
  const outcomes = edits.map((wanted) => {
    try {
      return edit(panel, running, wanted);
    } catch (error) {
      console.error("jupyter-agent: a cell could not be edited:", error);
      return { ok: false, why: "failed" };
    }
  });
  manager?.stopCapturing();
  return { outcomes };
}

/** What was answered, by the message's number: the kernel asks again if it was not heard. */
const answered = new Map();

function answer(panel, visits, message) {
  if (!answered.has(message.n)) {
    const found =
      message.t === "edit"
        ? keepingPlace(panel, visits, () => editAll(panel, message.cell, message.edits))
        : read(panel, visits, message.cell);
    answered.set(message.n, found);
    for (const old of [...answered.keys()].slice(0, -20)) answered.delete(old);
  }
  return { n: message.n, ...answered.get(message.n) };
}

/** @param {Context} context */
export async function activate({ shared, tracker }) {
  if (!tracker) return;
  const { NotebookActions } = await shared("@jupyterlab/notebook");
  /** @type {Map<any, {name: string, visits: Visits}>} */
  const panels = new Map();

  /** The open notebook that has a cell, of those that use a kernel. */
  const panelWith = (kernel, cell) =>
    [...panels.keys()].find(
      (panel) =>
        panel.sessionContext.session?.kernel?.id === kernel.id && idsOf(panel).includes(cell),
    );

  const opened = (kernel) => (comm, message) => {
    const { cell, client } = message.content.data;
    const panel = panelWith(kernel, cell);
    if (!panel) return; // another page of this kernel has it
    const { name, visits } = panels.get(panel);
    comm.onMsg = ({ content: { data } }) => {
      if (data.to === name && panels.has(panel)) comm.send(answer(panel, visits, data));
    };
    comm.send({ t: "here", page: name, ran: panel.sessionContext.session?.kernel?.clientId === client });
  };

  const register = (kernel) => {
    try {
      kernel?.registerCommTarget(TARGET, opened(kernel));
    } catch {
      // Another connection of this page to the kernel has its comms, and this target, too.
    }
  };

  const follow = (panel) => {
    if (panels.has(panel)) return;
    const visits = new Visits();
    panels.set(panel, { name: `${PAGE}-${panels.size}`, visits });
    panel.disposed.connect(() => panels.delete(panel));
    visits.active(panel.content.activeCell?.model.id);
    const notice = (event) => {
      const { activeCell, mode, node } = panel.content;
      const id = activeCell?.model.id;
      if (id) visits.selection.set(id, selectedIn(panel, id));
      if (event.type === "keydown" && mode === "command" && MOVES.has(event.key)) return;
      if (event.target === node || activeCell?.node.contains(event.target)) visits.used();
      else if (event.type === "pointerdown") visits.pointed();
    };
    for (const type of ["pointerdown", "keydown"]) panel.content.node.addEventListener(type, notice, true);
    panel.content.activeCellChanged.connect((_, cell) => visits.active(cell?.model?.id));
    panel.sessionContext.kernelChanged.connect((_, { newValue }) => register(newValue));
    register(panel.sessionContext.session?.kernel);
  };

  NotebookActions.executionScheduled?.connect((_, { notebook, cell }) => {
    for (const [panel, { visits }] of panels) if (panel.content === notebook) visits.ran(cell.model.id);
  });
  tracker.forEach(follow);
  tracker.widgetAdded.connect((_, panel) => follow(panel));
}
