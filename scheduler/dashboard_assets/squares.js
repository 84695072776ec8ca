// The devices of a node as squares: one for each GPU, and within it one for each slice. The squares
// are for the eye; the card's label and the table say the same as text.
import { Component, html } from "./html.js";
import * as f from "./format.js";
import { AmountBar } from "./parts.js";

const SIGNS = { failed: "\u00d7", unknown: "?" };

/** One node: a link with its squares, drawn again only if the node or the view changed. */
export class NodeCard extends Component {
  shouldComponentUpdate(next) {
    return next.signature !== this.props.signature;
  }

  render({ node, marks, dense, namespace, target, isSelected, tabindex }) {
    const view = { node, marks, dense, namespace };
    return html`<li class="card state-${node.state} ${isSelected ? "is-selected" : ""}">
      <a href=${target} data-node=${node.node} tabindex=${tabindex} aria-current=${isSelected ? "true" : undefined}
          aria-label=${described(node)} title=${described(node)}>
        ${!dense && html`<span class="card-head"><span class="card-name">${node.node}</span>
          <span class="card-room">${room(node)}</span></span>`}
        <span class="squares" aria-hidden="true">${squares(view)}</span>
      </a></li>`;
  }
}

function room({ state, largestFree }) {
  if (state !== "ready") return state;
  if (!largestFree) return "full";
  const { unit, count } = largestFree;
  return `${unit !== "gpu" && count === 1 ? unit : f.amount(unit, count)} free`;
}

/** The card as a sentence. */
export function described(node) {
  const devices = Object.entries(node.devices).map(([unit, amounts]) => `${f.unitName(unit)}: ${f.states(amounts)}`);
  const holders = node.holders.slice(0, 6).map(({ namespace, pod }) => `${namespace}/${pod}`);
  const more = node.holders.length - holders.length;
  return [
    `${node.node}${node.state === "ready" ? "" : ` (${node.problem || node.state})`}`,
    devices.join(", "),
    holders.length && `held by ${holders.join(", ")}${more > 0 ? ` and ${more} more` : ""}`,
  ].filter(Boolean).join("; ");
}

function squares(view) {
  const { gpus, slices, devices } = view.node;
  if (!gpus.length && !slices.length) {
    return Object.entries(devices).map(([unit, amounts]) => html`<${AmountBar} key=${unit} amounts=${amounts} unit=${unit} />`);
  }
  return [...gpus.map((gpu) => square(view, gpu)), ...slices.map((slice, at) => loose(view, slice, at))];
}

function square(view, gpu) {
  if (gpu.slices?.length) return html`<span key=${gpu.index} class="sq is-cut">${cut(view, gpu)}</span>`;
  return html`<span key=${gpu.index} class="sq ${look(view, gpu.state, gpu.holders[0])}">${sign(view, gpu.state, gpu.holders)}</span>`;
}

/** The slices of a GPU by their place; the room between them is free. */
function cut(view, { slices, sliceCount }) {
  const pieces = [];
  let next = 0;
  for (const slice of slices.toSorted((one, other) => one.start - other.start)) {
    if (slice.start > next) pieces.push(piece(view, { state: "free", size: slice.start - next }));
    pieces.push(piece(view, slice));
    next = slice.start + slice.size;
  }
  if (next < sliceCount) pieces.push(piece(view, { state: "free", size: sliceCount - next }));
  return pieces;
}

function piece(view, { state, size, holder }) {
  return html`<span class="piece ${look(view, state, holder)}" style=${{ flexGrow: size }}>${size >= 2 && holder !== undefined && sign(view, state, [holder])}</span>`;
}

/** A slice whose GPU is not known. */
function loose(view, { profile, state, holder }, at) {
  return html`<span key="s${at}" class="sq is-slice ${look(view, state, holder)}"
    style=${{ flexGrow: compute(profile) }}>${sign(view, state, holder === undefined ? [] : [holder])}</span>`;
}

/** The compute slices of a profile: 3 of 3g.20gb. */
function compute(profile) {
  return Number.parseInt(profile, 10) || 1;
}

function owner({ node }, holder) {
  return node.holders[holder]?.namespace;
}

function look(view, state, holder) {
  if (state !== "held" && state !== "partial") return `is-${state}`;
  const namespace = owner(view, holder);
  const isDimmed = view.namespace && namespace !== view.namespace;
  const colour = namespace === undefined ? "none" : view.marks[namespace]?.colour ?? "none";
  return `is-held colour-${colour}${isDimmed ? " is-dimmed" : ""}`;
}

function sign({ dense, node, marks }, state, holders) {
  if (dense) return null;
  if (state !== "held" && state !== "partial") return SIGNS[state] ?? null;
  const letters = [...new Set(holders.map((holder) => marks[node.holders[holder]?.namespace]?.letter))].filter(Boolean);
  return letters.length > 1 ? "+" : letters[0] ?? null;
}
