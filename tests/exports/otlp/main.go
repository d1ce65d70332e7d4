// An OpenTelemetry collector of its own modules: the OTLP receiver on HTTP, the pipeline, and an exporter that prints what came in.
//
// Owns only that exporter: a line of JSON for each request. Of spans it says how many and how many links there are, how long the longest span
// is, whose child and of which trace the first one is, and the names of attributes; of logs the first record whole. All else is the collector's. Its configuration is written by the
// test. Rejected: to call its unmarshaler alone (whoever posts the file meets the receiver, which may refuse what that one reads).
//
// Edit together: tests/exports/otlp/build (which versions), tests/exports/test_readers.py, tests/outputs/test_outputs.py.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

type printer struct {
	component.StartFunc
	component.ShutdownFunc
	consumer.Traces
}

func printed(_ context.Context, traces ptrace.Traces) error {
	links, longest, attributes := 0, int64(0), map[string]bool{}
	resource := traces.ResourceSpans().At(0)
	spans := resource.ScopeSpans().At(0).Spans()
	known, orphans := map[string]bool{}, 0
	for _, span := range spans.All() {
		known[span.SpanID().String()] = true
	}
	for _, span := range spans.All() {
		for _, link := range span.Links().All() {
			links++
			if !known[link.SpanID().String()] {
				orphans++
			}
		}
		longest = max(longest, int64(span.EndTimestamp())-int64(span.StartTimestamp()))
		for name := range span.Attributes().All() {
			attributes[name] = true
		}
	}
	names := []string{}
	for name := range attributes {
		names = append(names, name)
	}
	service, _ := resource.Resource().Attributes().Get("service.name")
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"spans": spans.Len(), "links": links, "links_to_nothing": orphans, "longest_ns": longest, "service": service.AsString(),
		"root_parent": spans.At(0).ParentSpanID().String(), "trace": spans.At(0).TraceID().String(), "attributes": names,
	})
}

type logPrinter struct {
	component.StartFunc
	component.ShutdownFunc
	consumer.Logs
}

func printedLogs(_ context.Context, logs plog.Logs) error {
	resource := logs.ResourceLogs().At(0)
	scope := resource.ScopeLogs().At(0)
	record := scope.LogRecords().At(0)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"records": logs.LogRecordCount(), "body": record.Body().AsString(), "event": record.EventName(), "severity": record.SeverityNumber(),
		"at_ns": record.Timestamp(), "scope": scope.Scope().Name(), "attributes": record.Attributes().AsRaw(),
		"resource": resource.Resource().Attributes().AsRaw(),
	})
}

func createLogPrinter(context.Context, exporter.Settings, component.Config) (exporter.Logs, error) {
	logs, err := consumer.NewLogs(printedLogs)
	return logPrinter{Logs: logs}, err
}

func createPrinter(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
	traces, err := consumer.NewTraces(printed)
	return printer{Traces: traces}, err
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	own := exporter.NewFactory(component.MustNewType("printer"), func() component.Config { return &struct{}{} },
		exporter.WithTraces(createPrinter, component.StabilityLevelDevelopment),
		exporter.WithLogs(createLogPrinter, component.StabilityLevelDevelopment))
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](own)
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory()}, err
}

func main() {
	files := confmap.ResolverSettings{ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}, DefaultScheme: "file"}
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo:              component.BuildInfo{Command: "collector"},
		Factories:              factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: files},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
