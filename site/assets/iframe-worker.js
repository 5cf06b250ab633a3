// Search runs in a Worker, and browsers start none from the file system: there, its script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class {
    onmessage = null;
    onerror = null;
    onmessageerror = null;

    constructor(address) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inside = (this.inside = this.frame.contentWindow);
      inside.postMessage = (data) => this.hand(data, (data) => this.onmessage?.({ data }));
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => this.ready();
      script.onerror = (problem) => this.onerror?.(problem);
      inside.document.body.append(script);
    }

    ready() {
      const held = this.waiting;
      this.waiting = null;
      held.forEach((data) => this.postMessage(data));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.hand(data, (data) => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }

    // As between a page and a Worker: a copy of what was sent, and later.
    hand(data, take) {
      const copy = structuredClone(data);
      setTimeout(() => take(copy));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
