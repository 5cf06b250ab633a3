// Uses the TypeScript client against a server; the address and a key are arguments.
import assert from "node:assert/strict";
import { Keepstone, KeepstoneError } from "../../clients/typescript/keepstone.js";

const [url, key] = process.argv.slice(2);
const memory = new Keepstone({ url: `${url}/`, key });

const receipt = await memory.remember({ content: "Dana prefers dark mode.", tag: "preferences", "idempotency-key": "once" });
assert.equal(receipt.action, "added");
const again = await memory.remember({ content: "Dana prefers dark mode.", tag: "preferences", "idempotency-key": "once" });
assert.equal(again.id, receipt.id);
const found = await memory.recall({ query: "Which mode does Dana prefer?" });
assert.equal(found.hits[0].record.content, "Dana prefers dark mode.");
await memory.update({ id: receipt.id, content: "Dana prefers light mode." });
assert.deepEqual((await memory.history({ id: receipt.id })).versions.map((each) => each.version), [1, 2]);
const page = await memory.list({ tag: "preferences", limit: 1 });
assert.equal(page.records.length, 1);
await memory.set({ key: "app/theme", value: { mode: "light" } });
assert.deepEqual((await memory.value({ key: "app/theme" })).value, { mode: "light" });
await memory.addMessages({ session: "a b", messages: [{ role: "user", content: "Tea, please." }] });
assert.equal((await memory.messages({ session: "a b" })).messages[0].content, "Tea, please.");
await memory.forget({ id: receipt.id });
await assert.rejects(memory.get({ id: receipt.id }), (error) => error instanceof KeepstoneError && error.status === 404);
await assert.rejects(new Keepstone({ url, key: "wrong" }).me(), (error) => error.status === 401);
await assert.rejects(async () => memory.get({}), TypeError);
console.log(JSON.stringify(Object.getOwnPropertyNames(Keepstone.prototype)));
