// An agent on a server of the official JS SDK: server.mjs SDK. It prints its URL. The first word
// of a message selects what the agent does.
import { randomUUID } from 'node:crypto';
import express from 'express';

const [sdk] = process.argv.slice(2);
const legacy = sdk === '0.3';
const { AGENT_CARD_PATH, ...core } = await import(legacy ? 'a2a-03' : 'a2a-10');
const server = await import(legacy ? 'a2a-03/server' : 'a2a-10/server');
const { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } = await import(legacy ? 'a2a-03/server/express' : 'a2a-10/server/express');

// The agent writes events as JSON of its version.
const text = (s) => (legacy ? { kind: 'text', text: s } : { text: s });
const state = (s) => (legacy ? s : 'TASK_STATE_' + s.toUpperCase().replaceAll('-', '_'));
const textOf = (part) => (legacy ? part.text : part.content?.value);
const json = (m) => (legacy ? m : core.Message.toJSON(m));

function publish(bus, kind, event) {
  if (legacy) {
    bus.publish({ kind: { task: 'task', message: 'message', statusUpdate: 'status-update', artifactUpdate: 'artifact-update' }[kind], ...event });
    return;
  }
  const type = { task: core.Task, message: core.Message, statusUpdate: core.TaskStatusUpdateEvent, artifactUpdate: core.TaskArtifactUpdateEvent }[kind];
  bus.publish(server.AgentEvent[kind](type.fromJSON(event)));
}

const waiting = new Map();

class Agent {
  async execute(request, bus) {
    const { taskId, contextId, userMessage } = request;
    const said = (s) => ({
      ...(legacy && { kind: 'message' }), messageId: randomUUID(), role: legacy ? 'agent' : 'ROLE_AGENT', taskId, contextId, parts: [text(s)],
    });
    const status = (name, s, final) => publish(bus, 'statusUpdate', {
      taskId, contextId, status: { state: state(name), ...(s && { message: said(s) }), timestamp: new Date().toISOString() }, ...(legacy && { final }),
    });
    const artifact = (name, parts, more) => publish(bus, 'artifactUpdate', {
      taskId, contextId, artifact: { artifactId: name, name, parts }, ...more,
    });
    const word = textOf(userMessage.parts[0]).split(' ')[0];
    if (word === 'message') {
      publish(bus, 'message', { ...said('Hello.'), taskId: undefined });
      bus.finished();
      return;
    }
    if (!legacy && request.task) {
      bus.publish(server.AgentEvent.task(request.task));
    } else if (!request.task) {
      publish(bus, 'task', { id: taskId, contextId, status: { state: state('submitted') }, history: [json(userMessage)] });
    }
    status('working', word === 'chunks' ? 'thinking' : undefined, false);
    if (request.task) {
      artifact('answer', [text('You said: ' + textOf(userMessage.parts[0]))], { lastChunk: true });
    } else if (word === 'chunks') {
      artifact('answer', [text('for')], {});
      artifact('answer', [text('ty-two')], { append: true, lastChunk: true });
    } else if (word === 'echo') {
      artifact('echo', json(userMessage).parts.slice(1), { lastChunk: true });
    } else if (word === 'ask') {
      status('input-required', 'Which one?', true);
      bus.finished();
      return;
    } else if (word === 'wait') {
      await new Promise((resolve) => waiting.set(taskId, resolve));
      status('canceled', undefined, true);
      bus.finished();
      return;
    }
    status('completed', 'Done.', true);
    bus.finished();
  }

  async cancelTask(taskId) {
    waiting.get(taskId)?.();
  }
}

const app = express();
const listener = app.listen(0, '127.0.0.1');
await new Promise((resolve) => listener.once('listening', resolve));
const url = `http://127.0.0.1:${listener.address().port}`;
const card = {
  name: 'interop', description: 'The agent of the interop tests', version: '1', defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
  capabilities: { streaming: true, pushNotifications: true }, skills: [{ id: 'words', name: 'Words', description: 'Does what the first word says', tags: ['test'] }],
};
if (legacy) {
  Object.assign(card, { protocolVersion: '0.3.0', url: `${url}/rpc`, preferredTransport: 'JSONRPC',
    additionalInterfaces: [{ transport: 'JSONRPC', url: `${url}/rpc` }, { transport: 'HTTP+JSON', url: `${url}/rest` }] });
} else {
  const of = (protocolVersion, protocolBinding, path) => ({ protocolVersion, protocolBinding, url: url + path });
  card.supportedInterfaces = [of('1.0', 'JSONRPC', '/rpc'), of('1.0', 'HTTP+JSON', '/rest'), of('0.3', 'JSONRPC', '/rpc'), of('0.3', 'HTTP+JSON', '/rest')];
}
const agentCard = legacy ? card : core.AgentCard.fromJSON(card);
const store = new server.InMemoryPushNotificationStore();
const requestHandler = new server.DefaultRequestHandler(
  agentCard, new server.InMemoryTaskStore(), new Agent(), undefined, store, new server.DefaultPushNotificationSender(store));
const options = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat: { enabled: true } };
app.use('/' + AGENT_CARD_PATH, agentCardHandler({ agentCardProvider: requestHandler, legacyCompat: { enabled: true } }));
app.use('/rpc', jsonRpcHandler(options));
app.use('/rest', restHandler(options));
process.stdout.write(url + '\n');
process.stdin.on('end', () => process.exit(0)).resume();
