// What blocks us, and in what order?
import { html } from "../html.js";
import * as f from "../format.js";
import { address, podAddress } from "../address.js";
import { Age, Answer, Badge, Choice, Panel, PodLink, Search, Tabs } from "../parts.js";
import { DataTable } from "../table.js";

const VIEWS = [["", "By order"], ["reason", "By reason"], ["owner", "By owner"]];
// What the queue does with a pod, in the words of kube-scheduler.
const PLACES = {
  active: "in the active queue", decided: "decided right now", backoff: "in backoff",
  unschedulable: "unschedulable: waits for a change",
};

export function Waiting({ data, query, set, now }) {
  const view = query.by ?? "";
  const Table = { reason: ByReason, owner: ByOwner }[view] ?? ByOrder;
  return html`
    <${First} data=${data} now=${now} />
    <div class="toolbar">
      <${Tabs} label="Group the pods" name="by" options=${VIEWS} query=${query} set=${set} />
      ${view === "" && html`<${Filters} data=${data} query=${query} set=${set} />`}
    </div>
    <${Table} data=${data} query=${query} set=${set} now=${now} />`;
}

function First({ data: { total, pods }, now }) {
  const [first] = pods;
  if (!first) return html`<${Answer} tone="good">No pod waits.<//>`;
  const others = total - 1;
  return html`<${Answer} tone="warn">First of ${f.number(total)}: <${PodLink} ...${first} /> waits${" "}
      <${Age} since=${first.since} now=${now} />${f.devices(first.asks) && ` for ${f.devices(first.asks)}`}.<//>
    <p class="why">${first.reason || "It is not decided yet."}
      ${others > 0 && html` ${f.plural(others, "pod")} ${others === 1 ? "is" : "are"} behind it, by priority and age.`}</p>`;
}

function Filters({ data: { pods }, query, set }) {
  const namespaces = [...new Set(pods.map(({ namespace }) => namespace))].sort();
  const codes = [...new Set(pods.map(({ code }) => code))].sort();
  return html`
    <${Choice} label="Namespace" name="ns" all="all" options=${namespaces.map((one) => [one, one])} query=${query} set=${set} />
    <${Choice} label="Reason" name="code" all="all" options=${codes.map((one) => [one, f.codeName(one)])} query=${query} set=${set} />
    <${Search} label="Search" name="q" placeholder="pod, owner or text" query=${query} set=${set} />`;
}

function matches({ ns, code, q }) {
  const text = (q ?? "").toLowerCase();
  return (pod) =>
    (!ns || pod.namespace === ns) && (!code || pod.code === code) &&
    (!text || `${pod.namespace}/${pod.pod} ${pod.owner} ${pod.reason}`.toLowerCase().includes(text));
}

function ByOrder({ data, query, set, now }) {
  const rows = data.pods.filter(matches(query));
  // In the queue's order one text is enough for neighbours with the same reason.
  const repeats = new Set(query.sort ? [] : rows.filter((pod, at) => isSame(pod, rows[at - 1])));
  const columns = [
    { key: "position", title: "#", numeric: true, sort: ({ position }) => position, cell: ({ position }) => f.number(position) },
    { key: "pod", title: "Pod", nowrap: true, sort: ({ namespace, pod }) => `${namespace}/${pod}`, cell: (pod) => html`
      <${PodLink} ...${pod} />${pod.owner && html`<div class="note">${pod.owner}</div>`}` },
    { key: "asks", title: "Requests", sort: ({ asks }) => size(asks), cell: ({ asks }) => f.devices(asks) || html`<span class="muted">no GPU</span>` },
    { key: "priority", title: "Priority", numeric: true, wide: true, sort: ({ priority }) => priority, cell: ({ priority }) => f.number(priority) },
    { key: "since", title: "Waits", numeric: true, sort: ({ since }) => -Date.parse(since), cell: ({ since }) => html`<${Age} since=${since} now=${now} />` },
    { key: "reason", title: "Reason, and what would help", sort: ({ code }) => code, cell: (pod) => html`<${Reason} pod=${pod} now=${now} isNew=${!repeats.has(pod)} />` },
  ];
  const note = rows.length === data.total ? "" : `${f.number(rows.length)} of ${f.number(data.total)} pods`;
  return html`<${Panel} id="order" title="Queue" note=${note || "In the order of priority and age."}>
    <${DataTable} caption="Waiting pods in the order of the queue" columns=${columns} rows=${rows} query=${query} set=${set}
      keyOf=${({ namespace, pod }) => `${namespace}/${pod}`}
      empty=${data.total ? "No waiting pod matches these filters." : "No pod waits."} />
    ${data.leftOut > 0 && html`<p class="note">${f.plural(data.leftOut, "further pod")} not listed; the groups count all.</p>`}
  <//>`;
}

function isSame(pod, before) {
  return before !== undefined && pod.code === before.code && pod.reason === before.reason;
}

function Reason({ pod, now, isNew }) {
  const tone = pod.code === "NEW" ? "plain" : "warn";
  return html`<div class="reason">
    <${Badge} tone=${tone}>${f.codeName(pod.code)}<//>${" "}<span class="note">${PLACES[pod.place] ?? pod.place}${pod.nextTry && html`,
      next try in ${f.duration((Date.parse(pod.nextTry) - now) / 1000)}`}, ${f.plural(pod.attempts, "attempt")}</span>
    ${isNew && pod.reason && html`<p>${pod.reason}</p>`}
    ${pod.code !== "NEW" && html`<p class="help">${!isNew && "the same reason as the pod before; "}${isNew && pod.help && html`<span class="visually-hidden">What would help: </span>${pod.help}${" "}`}
      <a href=${podAddress(pod.namespace, pod.pod)}>every node's answer<span class="visually-hidden"> for ${pod.pod}</span></a></p>`}
  </div>`;
}

function size(asks) {
  return Object.entries(asks).reduce((sum, [unit, count]) => sum + count * (unit === "gpu" ? 1000 : 1), 0);
}

function ByReason({ data, query, set, now }) {
  const columns = [
    { key: "code", title: "Reason", sort: ({ code }) => code, cell: ({ code }) => html`<a href=${address("waiting", { code })}>${f.codeName(code)}</a>` },
    { key: "pods", title: "Pods", numeric: true, sort: ({ pods }) => -pods, cell: ({ pods }) => f.number(pods) },
    { key: "devices", title: "Requests", sort: ({ devices }) => -size(devices), cell: ({ devices }) => f.devices(devices) || f.NONE },
    { key: "oldest", title: "Oldest", numeric: true, sort: ({ oldest }) => Date.parse(oldest), cell: ({ oldest }) => html`<${Age} since=${oldest} now=${now} />` },
    { key: "help", title: "What it means, and what would help", cell: ({ meaning, help }) => html`<p>${meaning}</p>${help && html`<p class="help">${help}</p>`}` },
  ];
  return html`<${Panel} id="by-reason" title="Reasons" note="All waiting pods, the most frequent reason first.">
    <${DataTable} caption="Waiting pods by reason" columns=${columns} rows=${data.byReason} query=${query} set=${set}
      keyOf=${({ code }) => code} empty="No pod waits." /><//>`;
}

function ByOwner({ data, query, set, now }) {
  const columns = [
    { key: "owner", title: "Owner", sort: ({ namespace, owner }) => `${namespace}/${owner}`, cell: ({ namespace, owner }) => html`
      <a href=${address("waiting", { ns: namespace, q: owner })}><span class="muted">${namespace}/</span>${owner || "pods without an owner"}</a>` },
    { key: "pods", title: "Pods", numeric: true, sort: ({ pods }) => -pods, cell: ({ pods }) => f.number(pods) },
    { key: "devices", title: "Requests", sort: ({ devices }) => -size(devices), cell: ({ devices }) => f.devices(devices) || f.NONE },
    { key: "oldest", title: "Oldest", numeric: true, sort: ({ oldest }) => Date.parse(oldest), cell: ({ oldest }) => html`<${Age} since=${oldest} now=${now} />` },
    { key: "codes", title: "Reasons", cell: ({ codes }) => Object.entries(codes).map(([code, pods]) => `${f.codeName(code)} (${pods})`).join(", ") },
  ];
  return html`<${Panel} id="by-owner" title="Owners" note="The owner with the most waiting pods first.">
    <${DataTable} caption="Waiting pods by owner" columns=${columns} rows=${data.byOwner} query=${query} set=${set}
      keyOf=${({ namespace, owner }) => `${namespace}/${owner}`} empty="No pod waits." />
    ${data.byOwnerLeftOut > 0 && html`<p class="note">${f.plural(data.byOwnerLeftOut, "further owner")} not listed.</p>`}<//>`;
}
