// Parts that several pages use: figures, bars, filters, copy buttons, times.
import { Component, html } from "./html.js";
import * as f from "./format.js";
import { podAddress } from "./address.js";

/** The answer of a page to its question, before everything else. */
export const Answer = ({ tone = "plain", children }) =>
  html`<p class="answer tone-${tone}">${children}</p>`;

export const Panel = ({ title, note, aside, children, id }) => html`
  <section class="panel" aria-labelledby=${id}>
    <div class="panel-head">
      <h2 id=${id}>${title}</h2>
      ${note && html`<p class="note">${note}</p>`}
      ${aside && html`<div class="panel-aside">${aside}</div>`}
    </div>
    ${children}
  </section>`;

export const Figure = ({ label, value, unit, note, tone = "plain" }) => html`
  <div class="figure tone-${tone}">
    <dt>${label}</dt>
    <dd><span class="value">${value}</span>${unit && html` <span class="unit">${unit}</span>`}
      ${note && html`<span class="note">${note}</span>`}</dd>
  </div>`;

const SEGMENTS = ["held", "failed", "unavailable", "free"];

/** Held, failed, unavailable and free devices as one bar; the text says the same. */
export function AmountBar({ amounts, unit, label }) {
  const counts = { ...amounts, unavailable: f.unavailable(amounts) };
  const text = `${label ?? f.unitName(unit)}: ${f.states(amounts)} of ${f.number(amounts.total)}`;
  return html`<div class="bar" role="img" aria-label=${text} title=${text}>
    ${SEGMENTS.map((name) => counts[name] > 0 && html`
      <span key=${name} class="seg seg-${name}" style=${{ flexGrow: counts[name] }}></span>`)}
  </div>`;
}

/** A share of a maximum, such as a quota. */
export function Meter({ value, max, label }) {
  const share = max ? Math.min(1, value / max) : value ? 1 : 0;
  return html`<div class="bar meter" role="img" aria-label=${label} title=${label}>
    <span class="seg ${value >= max ? "seg-full" : "seg-held"}" style=${{ flexGrow: share }}></span>
    <span class="seg seg-free" style=${{ flexGrow: 1 - share }}></span>
  </div>`;
}

export const StateKey = () => html`
  <ul class="key" aria-label="Key of the bars">
    ${SEGMENTS.map((name) => html`<li key=${name}><span class="swatch seg-${name}"></span>${name}</li>`)}
  </ul>`;

export const Age = ({ since, now }) =>
  since
    ? html`<time datetime=${since} title=${since}>${f.age(since, now)}</time>`
    : html`<span class="muted">${f.NONE}</span>`;

export const Clock = ({ time, now }) =>
  html`<time datetime=${time} title=${time}>${f.clock(time, now)}</time>`;

export const PodLink = ({ namespace, pod, short = false }) => html`
  <a class="pod" href=${podAddress(namespace, pod)}>
    ${!short && html`<span class="muted">${namespace}/</span>`}${pod}</a>`;

export const Badge = ({ tone = "plain", children }) =>
  html`<span class="badge tone-${tone}">${children}</span>`;

/** A menu whose choice is in the address. */
export const Choice = ({ label, name, options, query, set, all }) => html`
  <label class="field"><span>${label}</span>
    <select name=${name} value=${query[name] ?? ""}
        onChange=${(event) => set({ [name]: event.currentTarget.value })}>
      ${all !== undefined && html`<option value="">${all}</option>`}
      ${options.map(([value, text]) => html`
        <option key=${value} value=${value} selected=${(query[name] ?? "") === value}>${text}</option>`)}
    </select>
  </label>`;

export const Search = ({ label, name, query, set, placeholder }) => html`
  <label class="field grow"><span>${label}</span>
    <input type="search" name=${name} value=${query[name] ?? ""} placeholder=${placeholder}
      autocomplete="off" spellcheck=${false}
      onInput=${(event) => set({ [name]: event.currentTarget.value }, { replaces: true })} />
  </label>`;

/** Two or three views of the same data; the chosen one is in the address. */
export const Tabs = ({ label, name, options, query, set }) => html`
  <div class="tabs" role="group" aria-label=${label}>
    ${options.map(([value, text]) => html`
      <button key=${value} type="button" aria-pressed=${(query[name] ?? "") === value}
        onClick=${() => set({ [name]: value })}>${text}</button>`)}
  </div>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** A command and a button that copies it. */
export class Command extends Component {
  async copy() {
    let result = "copied";
    try {
      await navigator.clipboard.writeText(this.props.command);
    } catch {
      getSelection().selectAllChildren(this.base.querySelector("code"));
      result = "selected: press Ctrl+C";
    }
    this.setState({ result });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setState({ result: "" }), 3000);
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  render({ text, command }, { result = "" }) {
    return html`<li class="command">
      <span class="command-text">${text}</span>
      <code>${command}</code>
      <button type="button" class="copy" aria-label="Copy: ${command}" onClick=${() => this.copy()}>
        ${result || "Copy"}</button>
      <span role="status" class="visually-hidden">${result}</span>
    </li>`;
  }
}
