// Verifies the agent cards at the given paths with the official JS SDK: verify.mjs URL PATH...
// Each line of output is {path, card, changed}: the outcome for the card, and for a changed copy.
import { verifyAgentCardSignature } from 'a2a-10';

const [url, ...paths] = process.argv.slice(2);
const read = async (path) => (await fetch(new URL(path, url))).json();
const { keys } = await read('/.well-known/jwks.json');
const verify = verifyAgentCardSignature(async (kid) => {
  const key = keys.find((k) => k.kid === kid);
  if (!key) throw new Error(`unknown key ${kid}`);
  return key;
});
const outcome = (card) => verify(card).then(() => 'valid', (err) => err.message);
console.debug = () => {}; // the SDK logs every signature that does not match
for (const path of paths) {
  const card = await read(path);
  console.log(JSON.stringify({ path, card: await outcome(card), changed: await outcome({ ...card, name: 'other' }) }));
}
