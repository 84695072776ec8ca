// The data of one page: server-sent events, and requests where these are not available.

const POLL_MS = 10_000;
// How often a page without events tries to get them again.
const REOPEN_MS = 30_000;

/** Calls back with {envelope, connection, since} after each change. */
export class Feed {
  #changed;
  #known = new Map();
  #params = "";
  #source = null;
  #timer = 0;
  #reopenAt = 0;
  #state = { envelope: null, connection: "connecting", since: Date.now() };

  constructor(changed) {
    this.#changed = changed;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.#close();
      else if (this.#params) this.#open();
    });
  }

  /** Follow another page; its last known data are shown until its first event. */
  watch(params) {
    const text = new URLSearchParams(params).toString();
    if (text === this.#params) return;
    this.#params = text;
    this.#close();
    this.#set({ envelope: this.#known.get(text) ?? null, connection: "connecting" });
    this.#open();
  }

  #set(changes) {
    const since = changes.connection !== this.#state.connection ? Date.now() : this.#state.since;
    this.#state = { ...this.#state, since, ...changes };
    this.#changed(this.#state);
  }

  #close() {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#timer);
  }

  #open() {
    this.#close();
    const source = new EventSource(`/dashboard/events?${this.#params}`);
    this.#source = source;
    source.addEventListener("page", (event) => this.#received(JSON.parse(event.data), "live"));
    source.addEventListener("open", () => {
      // Nothing is sent while nothing changes, so an open connection is a live one.
      if (this.#state.envelope) this.#set({ connection: "live" });
    });
    source.addEventListener("error", () => {
      if (source !== this.#source) return;
      this.#set({ connection: "lost" });
      if (source.readyState !== EventSource.CLOSED) return; // the browser connects again
      this.#reopenAt = Date.now() + REOPEN_MS;
      this.#poll(this.#params);
    });
  }

  #received(envelope, connection) {
    this.#known.set(this.#params, envelope);
    this.#set({ envelope, connection });
  }

  async #poll(params) {
    let waitMs = POLL_MS;
    try {
      const response = await fetch(dataAddress(params), { headers: { accept: "application/json" } });
      if (params !== this.#params) return;
      if (response.ok) this.#received(await response.json(), "polling");
      else {
        waitMs = 1000 * Number(response.headers.get("retry-after")) || POLL_MS;
        this.#set({ connection: "lost" });
      }
    } catch {
      if (params !== this.#params) return;
      this.#set({ connection: "lost" });
    }
    this.#timer = setTimeout(() => {
      if (Date.now() < this.#reopenAt) this.#poll(params);
      else this.#open();
    }, waitMs);
  }
}

function dataAddress(params) {
  const { page, ...rest } = Object.fromEntries(new URLSearchParams(params));
  const search = new URLSearchParams(rest).toString();
  return `/dashboard/data/${page}${search && `?${search}`}`;
}
