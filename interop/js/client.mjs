// Drives a client of the official JS SDK for the tests: client.mjs SDK VERSION BINDING URL.
// Each line of input is a call {id, op, args}; lines of output are {id, value}, several and then
// {id, end} for streams, or {id, error}. Messages and events are JSON of A2A 0.3 or 1.0 (SDK).
import { createInterface } from 'node:readline';

const [sdk, version, binding, url] = process.argv.slice(2);

async function legacy() {
  const { ClientFactory, ClientFactoryOptions, JsonRpcTransport, RestTransport } = await import('a2a-03/client');
  const { GrpcTransport, GrpcTransportFactory } = await import('a2a-03/client/grpc');
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new GrpcTransportFactory()], preferredTransports: [binding],
  }));
  const client = await factory.createFromUrl(url);
  // The factory takes another transport if the card has none of this binding.
  const transport = { JSONRPC: JsonRpcTransport, 'HTTP+JSON': RestTransport, GRPC: GrpcTransport }[binding];
  if (!(client.transport instanceof transport)) throw new Error(`the card has no ${binding}`);
  const params = ({ message, immediate, hook }) => ({
    message,
    configuration: { blocking: !immediate, ...(hook && { pushNotificationConfig: { id: hook.id, url: hook.url, token: hook.token } }) },
  });
  return {
    card: async () => client.getAgentCard(),
    send: async (a) => client.sendMessage(params(a)),
    stream: (a) => client.sendMessageStream(params(a)),
    resubscribe: ({ id }) => client.resubscribeTask({ id }),
    task: async ({ id }) => client.getTask({ id }),
    cancel: async ({ id }) => client.cancelTask({ id }),
    setHook: async ({ taskId, ...c }) => client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: c }),
    hook: async ({ task, id }) => client.getTaskPushNotificationConfig({ id: task, pushNotificationConfigId: id }),
    hooks: async ({ task }) => client.listTaskPushNotificationConfig({ id: task }),
    deleteHook: async ({ task, id }) => client.deleteTaskPushNotificationConfig({ id: task, pushNotificationConfigId: id }),
  };
}

async function current() {
  const a2a = await import('a2a-10');
  const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } = await import('a2a-10/client');
  const { GrpcTransportFactory } = await import('a2a-10/client/grpc');
  const legacyCompat = { enabled: version === '0.3' };
  const card = await new DefaultAgentCardResolver({ legacyCompat }).resolve(url);
  // One that knows both versions prefers 1.0, so 0.3 is tested with a card that has no other.
  card.supportedInterfaces = card.supportedInterfaces.filter(
    (i) => i.protocolBinding === binding && i.protocolVersion.startsWith(version));
  const factory = new ClientFactory({
    transports: [JsonRpcTransportFactory, RestTransportFactory, GrpcTransportFactory].map((Factory) => new Factory({ legacyCompat })),
  });
  const client = await factory.createFromAgentCard(card);
  const params = ({ message, immediate, hook }) => a2a.SendMessageRequest.fromJSON({
    message, configuration: { returnImmediately: Boolean(immediate), ...(hook && { taskPushNotificationConfig: hook }) },
  });
  const task = (t) => ({ task: a2a.Task.toJSON(t) });
  const config = (c) => a2a.TaskPushNotificationConfig.toJSON(c);
  async function* items(stream) {
    for await (const item of stream) yield a2a.StreamResponse.toJSON(item);
  }
  return {
    card: async () => a2a.AgentCard.toJSON(card),
    send: async (a) => {
      const result = await client.sendMessage(params(a));
      return 'messageId' in result ? { message: a2a.Message.toJSON(result) } : task(result);
    },
    stream: (a) => items(client.sendMessageStream(params(a))),
    resubscribe: ({ id }) => items(client.resubscribeTask({ tenant: '', id })),
    task: async ({ id }) => task(await client.getTask({ tenant: '', id })),
    cancel: async ({ id }) => task(await client.cancelTask({ tenant: '', id })),
    setHook: async (c) => config(await client.createTaskPushNotificationConfig(a2a.TaskPushNotificationConfig.fromJSON(c))),
    hook: async ({ task, id }) => config(await client.getTaskPushNotificationConfig({ tenant: '', taskId: task, id })),
    hooks: async ({ task }) => {
      const list = await client.listTaskPushNotificationConfig({ tenant: '', taskId: task, pageSize: 0, pageToken: '' });
      return list.configs.map(config);
    },
    deleteHook: async ({ task, id }) => client.deleteTaskPushNotificationConfig({ tenant: '', taskId: task, id }),
  };
}

const print = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const failed = (id, e) => print({ id, error: { name: e.constructor.name, message: String(e.stack), code: e.errorResponse?.error?.code } });

let ops;
try {
  ops = await (sdk === '0.3' ? legacy() : current());
} catch (e) {
  failed(0, e);
  process.exit(1);
}
print({ id: 0, value: await ops.card() });

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, op, args } = JSON.parse(line);
  try {
    const result = ops[op](args);
    if (result[Symbol.asyncIterator]) {
      for await (const value of result) print({ id, value });
      print({ id, end: true });
    } else {
      print({ id, value: (await result) ?? null });
    }
  } catch (e) {
    failed(id, e);
  }
}).on('close', () => process.exit(0));
