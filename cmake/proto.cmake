# lcab_proto(<file.proto>...): one protoc call for all files, and two targets of its outputs:
#   lcab_proto       messages; needs protobuf only, so that lcab-runner links no gRPC
#   lcab_proto_grpc  services, with gmock stubs (*_mock.grpc.pb.h) for tests
# Files are named relative to the calling folder, which is the import root: lcab/v1/job.proto is
# included in C++ as "lcab/v1/job.pb.h".
function(lcab_proto)
  set(root "${CMAKE_CURRENT_SOURCE_DIR}")
  set(out "${PROJECT_BINARY_DIR}/generated_proto")
  file(MAKE_DIRECTORY "${out}")
  set(sources "")
  set(messages "")
  set(services "")
  set(service_headers "")
  foreach(proto IN LISTS ARGN)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    list(APPEND sources "${root}/${proto}")
    list(APPEND messages "${out}/${stem}.pb.cc")
    list(APPEND services "${out}/${stem}.grpc.pb.cc")
    list(APPEND headers "${out}/${stem}.pb.h" "${out}/${stem}.grpc.pb.h" "${out}/${stem}_mock.grpc.pb.h")
  endforeach()
  add_custom_command(
    OUTPUT ${messages} ${services} ${headers}
    COMMAND protobuf::protoc "--proto_path=${root}" "--cpp_out=${out}"
            "--grpc_out=generate_mock_code=true:${out}"
            "--plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>" ${ARGN}
    DEPENDS ${sources}
    WORKING_DIRECTORY "${root}"
    COMMENT "Generating C++ from the protos"
    VERBATIM)

  add_library(lcab_proto STATIC ${messages})
  add_library(lcab_proto_grpc STATIC ${services})
  # The outputs of one command are used by two targets: without an order both would run it.
  add_dependencies(lcab_proto_grpc lcab_proto)
  foreach(target lcab_proto lcab_proto_grpc)
    target_include_directories(${target} SYSTEM PUBLIC "${out}")
    set_target_properties(${target} PROPERTIES LCAB_FOLDER proto)
    set_property(GLOBAL APPEND PROPERTY LCAB_TARGETS ${target})
    target_compile_options(${target} PRIVATE -w)
  endforeach()
  target_link_libraries(lcab_proto PUBLIC protobuf::libprotobuf Threads::Threads)
  target_link_libraries(lcab_proto_grpc PUBLIC lcab_proto gRPC::grpc++)
endfunction()
