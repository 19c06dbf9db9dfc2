// @ts-check
/**
 * What `remoteEntry.js` hands to each module's `activate`. JupyterLab's own types are not at hand
 * without a build, so its objects are `any`.
 *
 * @typedef {object} Context
 * @property {any} app the application (`JupyterFrontEnd`)
 * @property {(name: string) => Promise<any>} shared gives a module that JupyterLab shares
 * @property {any} tracker the open notebooks (`INotebookTracker`); null on pages without any
 * @property {any} editorExtensions CodeMirror extensions for editors (`IEditorExtensionRegistry`),
 *   or null
 * @property {any} languages the languages of editors (`IEditorLanguageRegistry`), or null
 */
export {};
