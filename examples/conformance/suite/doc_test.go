// Package suite_test proves the requirements of the official kits without them. The tables name
// the requirements as the kits do. The conformance agent runs in the profile of each table, and
// every response is checked for members that its protocol version does not define.
//
// HOLDFAST_SCHEMA_V03 and HOLDFAST_SCHEMA_V10 are the paths of the official JSON schemas, against
// which every result is then validated too: specification/json/a2a.json of the tag v0.3.0 of
// a2aproject/A2A, and specification/a2a.json of the kit for A2A 1.0.
//
// HOLDFAST_RESPONSES is a directory. The suite writes there what the agent sent, which the tests of
// module interop validate against the types of the official SDKs.
package suite_test
