// The one place where the view library is named: templates become virtual nodes.
import htm from "./vendor/htm.js";
import { Component, createRef, h, render } from "./vendor/preact.js";

export const html = htm.bind(h);
export { Component, createRef, render };
