package mutants

import "slices"

// engine are defects of the engine.
var engine = slices.Concat(engineRuns, engineDispatch, engineReplay, engineClients, engineRetention)
