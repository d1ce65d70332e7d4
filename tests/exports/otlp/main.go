// Reads spans as an OpenTelemetry collector does: the JSON body of an export request, by the collector's own unmarshaler.
// Prints one line of JSON: how many spans, how many links, how long the longest span is, and the resource's service.
package main

import (
	"encoding/json"
	"os"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

func main() {
	body, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	request := ptraceotlp.NewExportRequest()
	if err := request.UnmarshalJSON(body); err != nil {
		panic(err)
	}
	resource := request.Traces().ResourceSpans().At(0)
	spans := resource.ScopeSpans().At(0).Spans()
	links, longest := 0, int64(0)
	for i := 0; i < spans.Len(); i++ {
		span := spans.At(i)
		links += span.Links().Len()
		if length := int64(span.EndTimestamp()) - int64(span.StartTimestamp()); length > longest {
			longest = length
		}
	}
	service, _ := resource.Resource().Attributes().Get("service.name")
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"spans": spans.Len(), "links": links, "longest_ns": longest, "service": service.AsString(),
		"root_parent": spans.At(0).ParentSpanID().String(), "trace": spans.At(0).TraceID().String(),
	})
}
