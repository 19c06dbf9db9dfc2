// @ts-check
/**
 * A cell whose first line is `%%agent` is prose: Markdown, wrapped, without Python's rules.
 *
 * @typedef {import("./context.js").Context} Context
 */

/** The start of an agent cell, or its first line. */
const AGENT = /^%%agent(?!\S)/;
/** A word, a name of Python's, or `@name`; an underscore at its end may close an emphasis. */
const WORD = /@?[\p{L}\p{N}]+(?:_+[\p{L}\p{N}]+)*|@/uy;

/** @param {Context} context */
export async function activate({ shared, editorExtensions, languages }) {
  if (!editorExtensions || !languages) return;
  const { EditorExtensionRegistry } = await shared("@jupyterlab/codemirror");
  const { Compartment, EditorState } = await shared("@codemirror/state");
  const prose = await proseExtensions(shared, languages);
  /** @type {any[]} */
  const untouched = [];
  const place = new Compartment();
  /** @param {string} text */
  const suited = (text) => (AGENT.test(text) ? prose : untouched);
  // As a part of each change, whatever made it: typing, pasting, undoing, another window.
  const followed = EditorState.transactionExtender.of((/** @type {any} */ change) => {
    if (!change.docChanged) return null;
    const wanted = suited(change.newDoc.line(1).text);
    if (wanted === place.get(change.startState)) return null;
    return { effects: place.reconfigure(wanted) };
  });

  editorExtensions.addExtension({
    name: "jupyter-agent:prose",
    /** @param {{model: any}} options */
    factory: ({ model }) => {
      if (model.type !== "code") return null; // Markdown, raw text, a file
      const begun = place.of(suited(model.sharedModel.getSource()));
      return EditorExtensionRegistry.createImmutableExtension([begun, followed]);
    },
  });
}

/**
 * What makes an editor one for prose.
 * @param {Context["shared"]} shared
 * @param {any} languages
 * @returns {Promise<any[]>}
 */
async function proseExtensions(shared, languages) {
  const { EditorState, Prec } = await shared("@codemirror/state");
  const { Decoration, EditorView } = await shared("@codemirror/view");
  const { Language } = await shared("@codemirror/language");
  const { language, support } = (await languages.getLanguage("ipythongfm")).support;
  const parser = language.parser.configure([MAGIC_LINE, WORDS]);
  return [
    Prec.highest(new Language(language.data, parser, [], "agent").extension),
    support,
    // An apostrophe has no partner.
    Prec.highest(EditorState.languageData.of(() => [{ closeBrackets: { brackets: [] } }])),
    EditorView.lineWrapping,
    EditorView.decorations.of(
      Decoration.set([
        Decoration.line({ class: "jp-AgentCell-line" }).range(0),
        Decoration.mark({ class: "jp-AgentCell-magic" }).range(0, "%%agent".length),
      ]),
    ),
    EditorView.baseTheme({
      ".jp-AgentCell-line": {
        backgroundColor: "rgba(128, 128, 128, 0.15)", // the selection is drawn behind it
        boxShadow: "inset 3px 0 var(--jp-brand-color1)",
      },
      ".jp-AgentCell-magic": { fontWeight: "bold" },
    }),
  ];
}

/** For the Markdown parser: the first line is a block of its own, whatever its options look like. */
const MAGIC_LINE = {
  defineNodes: [{ name: "AgentMagic", block: true }],
  parseBlock: [
    {
      name: "AgentMagic",
      before: "LinkReference",
      /** @type {(blocks: any, line: {text: string}) => boolean} */
      parse: (blocks, line) => {
        if (blocks.lineStart > 0 || !AGENT.test(line.text)) return false;
        const words = [...line.text.matchAll(/\S+/g)].map(({ 0: word, index }) =>
          blocks.elt("AgentWord", index, index + word.length),
        );
        blocks.addElement(blocks.elt("AgentMagic", 0, line.text.length, words));
        blocks.nextLine();
        return true;
      },
    },
  ],
};

/** For the Markdown parser: words as nodes. JupyterLab's completer offers whole paragraphs else. */
const WORDS = {
  defineNodes: [{ name: "AgentWord" }],
  parseInline: [
    {
      name: "AgentWord",
      /** @type {(line: any, next: number, start: number) => number} */
      parse: (line, _, start) => {
        WORD.lastIndex = start - line.offset;
        const word = WORD.exec(line.text);
        return word ? line.addElement(line.elt("AgentWord", start, start + word[0].length)) : -1;
      },
    },
  ],
};
