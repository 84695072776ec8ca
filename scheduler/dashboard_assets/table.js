// A table with a caption, headers that sort, and a limit on the rows that are drawn at once.
import { Component, html } from "./html.js";
import * as f from "./format.js";

const ROWS_AT_ONCE = 200;

/**
 * columns: [{key, title, cell(row), sort?(row), numeric?, wide?}]: `wide` columns are left out on
 * narrow screens. `query.sort` has the column's key, with "-" before it for the reverse order.
 */
export class DataTable extends Component {
  render({ caption, columns, rows, keyOf, query, set, empty, rowClass }, { shown = ROWS_AT_ONCE }) {
    if (!rows.length) return html`<p class="empty">${empty}</p>`;
    const order = query?.sort ?? "";
    const sorted = inOrder(rows, columns, order);
    const left = sorted.length - shown;
    return html`<div class="table" tabindex="0" role="region" aria-label=${caption}>
      <table role="table" class="stacks">
        <caption class="visually-hidden">${caption}</caption>
        <thead role="rowgroup"><tr role="row">${columns.map((column) => header(column, order, set))}</tr></thead>
        <tbody role="rowgroup">${sorted.slice(0, shown).map((row) => html`
          <tr role="row" key=${keyOf(row)} class=${rowClass?.(row)}>
            ${columns.map((column, at) => cell(column, row, at))}</tr>`)}
        </tbody>
      </table>
      ${left > 0 && html`<p class="more">
        <button type="button" onClick=${() => this.setState({ shown: shown + ROWS_AT_ONCE })}>
          Show ${f.number(Math.min(left, ROWS_AT_ONCE))} more</button>
        <span class="muted">${f.number(left)} of ${f.number(sorted.length)} are not shown</span></p>`}
    </div>`;
  }
}

function inOrder(rows, columns, order) {
  const column = columns.find(({ key, sort }) => sort && key === order.replace(/^-/, ""));
  if (!column) return rows;
  const sign = order.startsWith("-") ? -1 : 1;
  return rows.toSorted((one, other) => sign * compared(column.sort(one), column.sort(other)));
}

function compared(one, other) {
  return typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other;
}

function classes({ numeric, wide, nowrap }) {
  return [numeric && "numeric", wide && "wide", nowrap && "nowrap"].filter(Boolean).join(" ");
}

function header(column, order, set) {
  const { key, title, sort } = column;
  if (!sort || !set) return html`<th role="columnheader" key=${key} scope="col" class=${classes(column)}>${title}</th>`;
  const state = { [key]: "ascending", [`-${key}`]: "descending" }[order] ?? "none";
  const next = state === "ascending" ? `-${key}` : state === "descending" ? "" : key;
  return html`<th role="columnheader" key=${key} scope="col" class=${classes(column)} aria-sort=${state}>
    <button type="button" class="sort" onClick=${() => set({ sort: next })}>
      ${title}<span aria-hidden="true" class="arrow">${{ ascending: "\u25b4", descending: "\u25be" }[state] ?? "\u2195"}</span>
    </button></th>`;
}

function cell(column, row, at) {
  const content = column.cell(row);
  return at === 0
    ? html`<th role="rowheader" key=${column.key} scope="row" class=${classes(column)}>${content}</th>`
    : html`<td role="cell" key=${column.key} class=${classes(column)} data-title=${column.title}>${content}</td>`;
}
