// Why does this pod not run, or why does it run here?
import { html } from "../html.js";
import * as f from "../format.js";
import { address } from "../address.js";
import { Age, Answer, Badge, Clock, Command, Empty, Panel, PodLink, Search } from "../parts.js";
import { DataTable } from "../table.js";

const STANDINGS = {
  waits: ["waits", "warn"], gated: ["has scheduling gates", "warn"], placed: ["placed", "good"],
  ended: ["ended", "plain"], deleting: ["is being deleted", "plain"], unknown: ["not known now", "plain"],
};
const EVENTS = {
  created: "created", admitted: "admitted", queued: "queued", rejected: "no node found", placed: "node chosen",
  bound: "bound", bindFailed: "Binding failed", started: "started",
};
const GIVEN = {
  devices: "Devices", cudaVisibleDevices: "CUDA_VISIBLE_DEVICES", index: "Pod index", fallback: "Fallback",
  original: "Requested first", memory: "GPU memory", tierNodes: "Nodes of the tier", decision: "Decision", epoch: "Election term",
};

export function Pod({ data, query, set, now }) {
  return html`
    <${Standing} pod=${data} now=${now} />
    <div class="columns pod-columns">
      <div>
        <${Summary} pod=${data} />
        <${Reasons} pod=${data} />
      </div>
      <div>
        <${Commands} commands=${data.commands} />
        <${Before} waiting=${data.waiting} now=${now} />
        <${Given} given=${data.given} />
        <${Timeline} events=${data.timeline} now=${now} />
      </div>
    </div>
    <${Answers} outcome=${data.now} query=${query} set=${set} />
    <${Decisions} decisions=${data.decisions} now=${now} />`;
}

function Standing({ pod, now }) {
  const [text, tone] = STANDINGS[pod.standing] ?? [pod.standing, "plain"];
  const headline = pod.headline || (pod.node ? html`Runs on <${NodeLink} node=${pod.node} />` : `The pod ${text}`);
  return html`<${Answer} tone=${tone}>${headline}.<//>
    <p class="why"><${Badge} tone=${tone}>${text}<//>${" "}${pod.since && html`for <${Age} since=${pod.since} now=${now} />`}
      ${pod.owner && html`, owner <span class="mono">${pod.owner}</span>`}, priority ${f.number(pod.priority)},${" "}
      scheduler <span class="mono">${pod.scheduler}</span></p>`;
}

const NodeLink = ({ node }) => html`<a class="mono" href=${address("nodes", { node })}>${node}</a>`;

const LINES = { "do one": "what would help" };

function Summary({ pod }) {
  const lines = pod.summary.length
    ? pod.summary
    : [{ name: "asks", lines: [Object.entries(pod.asks).map(([name, amount]) => `${amount} x ${name}`).join(", ")] }];
  return html`<${Panel} id="summary" title="Explanation" note="The lines of gpuctl why.">
    <dl class="lines">${lines.map(({ name, lines: texts }) => html`
      <div key=${name} class=${name === "do one" ? "is-help" : ""}><dt>${LINES[name] ?? name}</dt>
        <dd>${texts.map((text, at) => html`<p key=${at}>${text}</p>`)}</dd></div>`)}
    </dl><//>`;
}

function Reasons({ pod: { nodeReasons, codes } }) {
  if (!nodeReasons.length) return null;
  const columns = [
    { key: "count", title: "Nodes", numeric: true, cell: ({ count }) => f.number(count) },
    { key: "text", title: "Answer", cell: ({ text, code, isFinal }) => html`<p>${text}</p>
      <p class="note">${code}${codes[code]?.nextStep && `: ${codes[code].nextStep}`}${isFinal && ". The end of another pod cannot help."}</p>` },
    { key: "nodes", title: "Which", cell: ({ nodes, count }) => html`<span class="names">
      ${nodes.map((node, at) => html`<span key=${node}><${NodeLink} node=${node} />${at < nodes.length - 1 && ", "}</span>`)}
      ${count > nodes.length && html`<span class="muted"> and ${f.number(count - nodes.length)} more</span>`}</span>` },
  ];
  return html`<${Panel} id="node-reasons" title="Why no node takes it">
    <${DataTable} caption="Answers of the nodes by reason" columns=${columns} rows=${nodeReasons}
      keyOf=${({ code, text }) => code + text} empty="" /><//>`;
}

function Commands({ commands }) {
  return html`<${Panel} id="commands" title="Commands">
    <ul class="commands">${commands.map(({ text, command }) => html`
      <${Command} key=${command} text=${text} command=${command} />`)}</ul><//>`;
}

function Before({ waiting, now }) {
  if (!waiting) return null;
  return html`<${Panel} id="queue" title="Queue">
    <dl class="lines">
      <div><dt>position</dt><dd>${waiting.position ? `${f.number(waiting.position)} of ${f.number(waiting.of)}` : f.NONE}, by priority and age</dd></div>
      <div><dt>attempts</dt><dd>${f.number(waiting.attempts)}${waiting.nextTry && `, the next in ${f.duration((Date.parse(waiting.nextTry) - now) / 1000)}`}</dd></div>
      ${waiting.wokenBy.length > 0 && html`<div><dt>tried again if</dt><dd>${waiting.wokenBy.join("; or ")}</dd></div>`}
      ${waiting.before.length > 0 && html`<div><dt>before it</dt><dd>${waiting.before.map((pod) => html`
        <p key=${pod.namespace + pod.pod}><${PodLink} ...${pod} />
          <span class="muted"> ${Object.entries(pod.asks).map(([name, count]) => `${count} x ${name}`).join(", ")}</span></p>`)}</dd></div>`}
    </dl><//>`;
}

function Given({ given }) {
  const set = Object.entries(given).filter(([, value]) => value !== "");
  if (!set.length) return null;
  return html`<${Panel} id="given" title="What it was given">
    <dl class="lines">${set.map(([name, value]) => html`
      <div key=${name}><dt>${GIVEN[name] ?? name}</dt><dd class="mono">${value}</dd></div>`)}</dl><//>`;
}

function Timeline({ events, now }) {
  return html`<${Panel} id="timeline" title="Timeline">
    ${!events.length && html`<${Empty}>No event is known.<//>`}
    <ol class="timeline">${events.map(({ time, event, text, decision }, at) => html`
      <li key=${at} class="event-${event}"><${Clock} time=${time} now=${now} />
        <div><strong>${EVENTS[event] ?? event}</strong>
          ${text && html`<p>${text}</p>`}${decision && html`<p class="note mono">${decision}</p>`}</div></li>`)}</ol><//>`;
}

function Answers({ outcome, query, set }) {
  if (!outcome?.refusals?.length) return null;
  const text = (query.q ?? "").toLowerCase();
  const rows = outcome.refusals.filter(({ node, code, text: reason }) => `${node} ${code} ${reason}`.toLowerCase().includes(text));
  const columns = [
    { key: "node", title: "Node", sort: ({ node }) => node, cell: ({ node }) => (node ? html`<${NodeLink} node=${node} />` : "the pod itself") },
    { key: "stage", title: "Plugin", wide: true, sort: ({ stage }) => stage, cell: ({ stage }) => stage },
    { key: "code", title: "Code", wide: true, sort: ({ code }) => code, cell: ({ code }) => html`<span class="mono">${code}</span>` },
    { key: "text", title: "Answer", sort: ({ text: reason }) => reason, cell: ({ text: reason }) => reason },
  ];
  return html`<${Panel} id="answers" title="Every node's answer" note="${f.number(outcome.refusals.length)} of ${f.number(outcome.total)} nodes, decided on the present state."
      aside=${html`<${Search} label="Search" name="q" placeholder="node, code or text" query=${query} set=${set} />`}>
    <${DataTable} caption="Answer of each node" columns=${columns} rows=${rows} query=${query} set=${set}
      keyOf=${({ node, code }) => node + code} empty="No node matches the search." /><//>`;
}

function Decisions({ decisions, now }) {
  const columns = [
    { key: "time", title: "Time", cell: ({ time }) => html`<${Clock} time=${time} now=${now} />` },
    { key: "id", title: "Decision", cell: ({ id }) => html`<span class="mono">${id}</span>` },
    { key: "attempt", title: "Attempt", numeric: true, cell: ({ attempt }) => f.number(attempt) },
    { key: "outcome", title: "Result", cell: ({ outcome, end, problem }) => html`
      ${outcome.node ? html`<p>placed on <${NodeLink} node=${outcome.node} />${outcome.devices && `: ${outcome.devices}`}</p>` : html`<p>${outcome.message}</p>`}
      ${end && html`<p class="note">Binding: ${end}${problem && `: ${problem}`}</p>`}` },
  ];
  return html`<${Panel} id="decisions" title="Decisions" note="Those in the leader's journal, the newest first.">
    <${DataTable} caption="Decisions about this pod" columns=${columns} rows=${decisions} keyOf=${({ id }) => id}
      empty="The journal has no decision about this pod." /><//>`;
}
