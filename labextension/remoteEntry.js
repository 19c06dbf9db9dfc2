// @ts-check
/**
 * What JupyterLab loads first: it offers one plugin for each module beside it.
 *
 * Written by hand in the form of a module-federation container (`init`, `get`), so that nothing
 * has to be built. Each module exports `activate(context)`. A module that fails is reported in the
 * console and leaves the others, and JupyterLab, as they are. No folder here is named `static`:
 * a Jupyter server lets browsers keep what is in one for a year, past an upgrade.
 */
(() => {
  const NAME = "jupyter-agent";
  const MODULES = ["prose", "cells", "plans"];
  const here = /** @type {HTMLScriptElement} */ (document.currentScript).src;

  /**
   * The modules that JupyterLab shares: by name, then by version.
   * @type {Record<string, Record<string, {get: () => any, loaded?: unknown}>>}
   */
  let scope = {};

  /**
   * Gives a module that JupyterLab shares.
   * @param {string} name
   * @returns {Promise<any>}
   * @throws {Error} where this version of JupyterLab does not share it
   */
  async function shared(name) {
    const versions = Object.entries(scope[name] ?? {}).sort(([one], [other]) =>
      other.localeCompare(one, undefined, { numeric: true }),
    );
    // The one that is in use already: two instances of CodeMirror do not know each other's values.
    const found = versions.find(([, module]) => module.loaded) ?? versions[0];
    if (!found) throw new Error(`JupyterLab does not share ${name}`);
    return (await found[1].get())();
  }

  /**
   * @param {string} name the module's file name, without `.js`
   * @param {any[]} services tokens; a page that lacks one (Notebook 7's list of files) gives null
   */
  const plugin = (name, services) => ({
    id: `${NAME}:${name}`,
    autoStart: true,
    optional: services,
    /** @type {(...found: any[]) => Promise<void>} */
    activate: async (app, tracker, editorExtensions, languages) => {
      try {
        const module = await import(new URL(`./${name}.js`, here).href);
        await module.activate({ app, shared, tracker, editorExtensions, languages });
      } catch (error) {
        console.error(`${NAME}: ${name}.js does not work here, the rest does:`, error);
      }
    },
  });

  /** @type {any} */
  const page = window;
  page._JUPYTERLAB = page._JUPYTERLAB || {};
  page._JUPYTERLAB[NAME] = {
    /** @param {typeof scope} modules */
    init: (modules) => {
      scope = modules;
    },
    get: async () => {
      const { INotebookTracker } = await shared("@jupyterlab/notebook");
      const editor = await shared("@jupyterlab/codemirror");
      const services = [
        INotebookTracker,
        editor.IEditorExtensionRegistry,
        editor.IEditorLanguageRegistry,
      ];
      const plugins = MODULES.map((name) => plugin(name, services));
      return () => ({ __esModule: true, default: plugins });
    },
  };
})();
