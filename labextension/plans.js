// @ts-check
/**
 * A cell that waits to carry out a plan (`%agent go`, offered after `%%agent --plan`) has a button.
 *
 * @typedef {import("./context.js").Context} Context
 */

/** A cell that holds nothing but the line. */
const GO = /^\s*%agent go(?:\s+\S[^\n]*)?\s*$/;

/** @param {Context} context */
export async function activate({ shared, tracker, editorExtensions }) {
  if (!tracker || !editorExtensions) return;
  const { EditorExtensionRegistry } = await shared("@jupyterlab/codemirror");
  const { NotebookActions } = await shared("@jupyterlab/notebook");
  const { StateField } = await shared("@codemirror/state");
  const { EditorView, showPanel } = await shared("@codemirror/view");

  /**
   * Run the cell that holds a button, like its triangle in the toolbar.
   * @param {HTMLElement} button
   */
  const run = async (button) => {
    const panel = tracker.find((/** @type {any} */ each) => each.content.node.contains(button));
    const notebook = panel?.content;
    const at = notebook?.widgets.findIndex((/** @type {any} */ cell) => cell.node.contains(button));
    if (!(at >= 0)) return;
    notebook.activeCellIndex = at;
    notebook.deselectAll();
    await NotebookActions.run(notebook, panel.sessionContext);
  };

  /** @param {any} model the cell */
  const createPanel = (model) => () => {
    const dom = document.createElement("div");
    const button = document.createElement("button");
    button.textContent = "Run the plan";
    button.className = "jp-AgentPlan-run";
    // A script in an output may press buttons, too.
    button.onclick = (event) => event.isTrusted && run(button);
    dom.append(button);
    const sync = () => {
      dom.hidden = model.executionCount !== null || model.executionState === "running";
    };
    return {
      dom,
      mount: () => (sync(), model.stateChanged.connect(sync)),
      destroy: () => model.stateChanged.disconnect(sync),
    };
  };

  const theme = EditorView.baseTheme({
    ".jp-AgentPlan-run": {
      margin: "2px 4px 4px",
      padding: "3px 12px",
      border: "none",
      borderRadius: "3px",
      font: "inherit",
      fontFamily: "var(--jp-ui-font-family)",
      color: "var(--jp-ui-inverse-font-color1)",
      backgroundColor: "var(--jp-brand-color1)",
      cursor: "pointer",
    },
  });

  editorExtensions.addExtension({
    name: "jupyter-agent:plans",
    /** @param {{model: any}} options */
    factory: ({ model }) => {
      if (model.type !== "code" || model.stateChanged === undefined) return null;
      const make = createPanel(model);
      /** @type {(state: any) => any} */
      const suited = (state) => (GO.test(state.doc.toString()) ? make : null);
      const button = StateField.define({
        create: suited,
        /** @type {(had: any, change: any) => any} */
        update: (had, change) => (change.docChanged ? suited(change.state) : had),
        /** @type {(field: any) => any} */
        provide: (field) => showPanel.from(field),
      });
      return EditorExtensionRegistry.createImmutableExtension([button, theme]);
    },
  });
}
