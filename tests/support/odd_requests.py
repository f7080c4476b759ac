"""Requests of an inference, usual and odd ones, as bytes."""

import struct

HEAD = b"POST /v2/models/mlp/infer HTTP/1.1\r\nhost: a\r\n"
BODY = b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}'
WITH_ID = BODY[:-1] + b',"id":"one","outputs":[{"name":"y"}]}'
TAIL = struct.pack("<2f", 1, 2)
JSON = b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}]}'
BINARY_OUT = JSON[:-1] + b',"parameters":{"binary_data_output":true}}'


def request(body: bytes, headers: bytes = b"") -> bytes:
    return HEAD + headers + b"content-length: %d\r\n\r\n" % len(body) + body


def binary(json: bytes, tail: bytes = TAIL) -> bytes:
    return request(json + tail, b"inference-header-content-length: %d\r\n" % len(json))


USUAL = [request(BODY), request(WITH_ID), binary(JSON), binary(BINARY_OUT)]


DATA = [
    b"[1,2]",
    b"[3.5,-4e-3]",
    b"[ 5 , 6 ]",
    b"[[1,2]]",
    b"[1]",
    b"[1,2,3]",
    b"[]",
    b"[true,1]",
    b"[null,1]",
    b'["NaN",1]',
    b'["Infinity","-Infinity"]',
    b"[NaN,1]",
    b"[1e999,1]",
    b"[-1e999,1]",
    b"[1e39,1]",
    b"[3.4028236e38,1]",
    b"[1,]",
    b"[01,1]",
    b"[1.0,2]",
    b"[-0,0]",
    b"[%s,1]" % (b"9" * 400),
    b"[18446744073709551616,1]",
    b"[1,2]]",
    b"[[1,2]",
    b"[1,2],[3]",
    b'[1,2],"data":[3,4]',
    b'[1,2],"d\\u0061ta":[3,4]',
    b"null",
    b"1",
    b'"[1,2]"',
    b"[1,2]}]}",
    b"\xff[1,2]",
    b"[1,2]\x00",
    b'["a]",1]',
    b"[1,2,]",
    b"[1 2]",
    b"[0x1,2]",
    b"[1e,2]",
    b"[+1,2]",
    b"[.5,2]",
    b"[5.,2]",
    b"{}",
    b"[{}]",
]


OBJECTS = [
    BODY.replace(b'"shape":[1,2]', b'"shape":' + shape)
    for shape in (
        b"[2]",
        b"[2,1]",
        b"[1,2,1]",
        b"[]",
        b"[0,2]",
        b"[1,-2]",
        b"[1.0,2]",
        b"[4294967296,1]",
        b"null",
        b"[5,2]",
    )
] + [
    BODY + b" ",
    BODY + b"x",
    BODY + BODY,
    b"\xef\xbb\xbf" + BODY,
    b" " + BODY,
    b"\xef\xbb\xbf\xef\xbb\xbf" + BODY,
    BODY[:-1] + b',"id":""}',
    BODY[:-1] + b',"id":null}',
    BODY[:-1] + b',"id":"a b"}',
    BODY[:-1] + b',"id":5}',
    BODY[:-1] + b',"id":"\xff"}',
    BODY[:-1] + b',"id":"\\ud800"}',
    BODY[:-1] + b',"id":"a","id":"b"}',
    BODY[:-1] + b',"inputs":[]}',
    BODY[:-1] + b',"outputs":[]}',
    BODY[:-1] + b',"outputs":[{"name":"z"}]}',
    BODY[:-1] + b',"outputs":[{"name":"y"},{"name":"y"}]}',
    BODY[:-1] + b',"outputs":[{"name":"y","parameters":{"classification":1}}]}',
    BODY[:-1] + b',"outputs":[{"name":"y","parameters":{"binary_data":true}}]}',
    BODY[:-1]
    + b',"outputs":[{"name":"y","parameters":{"binary_data":false}}],"parameters":{"binary_data_output":true}}',
    *(
        BODY[:-1] + b',"parameters":%b}' % each
        for each in (
            b"{}",
            b"null",
            b"[]",
            b'{"version":"1"}',
            b'{"version":1}',
            b'{"version":"2"}',
            b'{"tenant":""}',
            b'{"tenant":"t"}',
            b'{"reply_to":"headrace.x"}',
            b'{"deadline_s":0}',
            b'{"deadline_s":61}',
            b'{"deadline_s":5}',
            b'{"timeout":-1}',
            b'{"timeout":1000000}',
            b'{"a":[1]}',
            b'{"a":1e999}',
            b'{"priority":1}',
            b'{"binary_data_output":1}',
            b'{"a":1,"a":2}',
        )
    ),
    BODY.replace(b'"name":"x"', b'"name":"z"'),
    BODY.replace(b'"name":"x"', b'"name":""'),
    BODY.replace(b'"name"', b'"n\\u0061me"'),
    BODY.replace(b'"name":"x",', b'"name":"x","name":"x",'),
    BODY.replace(b'"data"', b'"d\\u0061ta"'),
    BODY.replace(b'"data"', b'"parameters":{"content_type":"base64"},"data"'),
    BODY.replace(b'"data"', b'"parameters":{"binary_data_size":8},"data"'),
    BODY.replace(b'"data"', b'"parameters":{"shared_memory_region":"a"},"data"'),
    BODY.replace(b'"data"', b'"parameters":{"data":[1,2]},"data"'),
    b'{"inputs":[%b,%b]}' % (BODY[11:-2], BODY[11:-2]),
    b'{"inputs":[%b,%b]}' % (BODY[11:-2], BODY[11:-2].replace(b'"x"', b'"z"')),
    b'{"data":[1,2],"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":["stands in"]}]}',
    b'{"dataref":"s3://b/k","data":[1,2]}',
    b"[]",
    b"",
    b"{}",
    b"null",
    b"[" * 3000,
    b'{"inputs":' * 400,
]


TWO = b'{"inputs":[%b,%b]}' % (JSON[11:-2], JSON[11:-2].replace(b'"x"', b'"z"'))
BINARIES = [
    *(
        binary(json, tail)
        for json in (JSON, BINARY_OUT, TWO, JSON.replace(b"FP32", b"BYTES"), JSON.replace(b"FP32", b"BOOL"))
        for tail in (TAIL, b"", TAIL[:-1], TAIL + b"x", TAIL * 2, b"\x04\0\0\0abcd", b"\xff" * 8, b"\0\1\0\1\0\1\0\1")
    ),
    *(
        request(JSON + TAIL, b"inference-header-content-length: %b\r\n" % length)
        for length in (
            b"0",
            b"1",
            b"x",
            b"-1",
            b"%d" % (len(JSON) - 1),
            b"%d" % (len(JSON) + 1),
            b"%d" % (len(JSON) + 8),
            b"9" * 30,
            b"",
            b"+9",
        )
    ),
    *(
        binary(JSON.replace(b":8}", b":%b}" % size))
        for size in (b"7", b"9", b"0", b"-8", b"8.0", b"true", b"null", b'"8"', b"1e999", b"9" * 40)
    ),
    binary(JSON.replace(b'"parameters"', b'"data":[1,2],"parameters"')),
    binary(BODY, b""),
    binary(BODY, TAIL),
    binary(JSON.replace(b":8}", b':8,"shared_memory_region":"a"}')),
    binary(JSON[:-1] + b',"outputs":[{"name":"z"}]}'),
    binary(JSON[:-1] + b',"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'),
    binary(b"\xef\xbb\xbf" + JSON),
    request(JSON + TAIL),
]


SPREAD = BODY.replace(b",", b",\r\n\r\n")  # what ends a head is in the body
BAD_HEADS = [
    request(SPREAD),
    (HEAD + b"content-length: %d\n\n" % len(SPREAD)).replace(b"\r\n", b"\n") + SPREAD,
    request(BODY, b"expect: 100-continue\r\n"),
    request(BODY, b"connection: close\r\n"),
    request(BODY, b"connection: keep-alive\r\n"),
    request(BODY, b"content-encoding: gzip\r\n"),
    request(BODY, b"content-encoding: identity\r\n"),
    request(BODY, b"transfer-encoding: chunked\r\n"),
    request(BODY, b"content-length: 3\r\n"),
    request(BODY, b"upgrade: h2c\r\nconnection: upgrade\r\n"),
    request(BODY, b"traceparent: 00-1-2-01\r\n"),
    request(BODY, b"x-request-id: q\r\n"),
    request(BODY, b"authorization: Bearer a\r\n"),
    request(BODY).replace(b"1.1", b"1.0"),
    request(BODY).replace(b"host: a\r\n", b""),
    request(BODY).replace(b"host: a", b"HOST: a"),
    request(BODY).replace(b"POST", b"post"),
    request(BODY).replace(b"POST", b"PUT"),
    request(BODY).replace(b"POST", b"GET"),
    request(BODY).replace(b"POST", b"HEAD"),
    request(BODY).replace(b"/infer", b"/infer/"),
    request(BODY).replace(b"/infer", b"/infer?a=b"),
    request(BODY).replace(b"mlp", b"%6dlp"),
    request(BODY).replace(b"mlp", b"%zz"),
    request(BODY).replace(b"mlp", b"other"),
    request(BODY).replace(b"mlp/", b"mlp/versions/1/"),
    request(BODY).replace(b"mlp/", b"mlp/versions/2/"),
    request(BODY).replace(b"/v2", b"http://a/v2"),
    request(BODY).replace(b"\r\n", b"\n"),
    request(BODY).replace(b"host: a", b"host: a\r\n b"),
    request(BODY).replace(b"host: a", b"host : a"),
    b"\r\n" + request(BODY),
    b"\n\n" + request(BODY),
    request(BODY).replace(b"length: ", b"length: 0"),
    request(BODY).replace(b"length: ", b"length: +"),
    request(BODY).replace(b"length: ", b"length:"),
    request(b" " * 5000),
    request(b"x" * 4096),
    request(BODY)[:-1],
    request(BODY) + b"x",
    HEAD + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
]
